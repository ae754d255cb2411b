"""Jobs that wait for their children. Any number of workers finish children at one moment, and one of them goes on with the parent.

    waiting:7    the children of job 7 that aren't finished; no such key where there are none left
    ready        a list: jobs that wait for nothing any more
"""


class Waiting:
    """`client` is one of redis-py; `prefix` stands before the keys."""

    def __init__(self, client, prefix=""):
        self.client, self.prefix = client, prefix

    def key(self, parent):
        return f"{self.prefix}waiting:{parent}"

    def begin(self, parent, children):
        """All of them, before a worker sees any: else the first may empty the set while the second is still to come."""
        self.client.sadd(self.key(parent), *children)

    def left(self, parent):
        return self.client.scard(self.key(parent))

    def finish(self, parent, child):
        """Whether nothing is left to wait for, which one caller alone is told, however often a child is said to be finished.

        In one transaction nobody comes between: the one who takes the last child out sees none left, others took out
        nothing or see what is left.
        """
        with self.client.pipeline(transaction=True) as pipe:
            pipe.srem(self.key(parent), child)
            pipe.scard(self.key(parent))
            removed, left = pipe.execute()
        return removed == 1 and left == 0

    def finish_into_queue(self, parent, child):
        """The same where a worker may die at any point: the parent becomes ready in the moment in which its last child goes.

        WATCH has EXEC fail where another changed the set since it was looked at, and redis-py looks again.
        """

        def step(pipe):
            is_last = pipe.smembers(self.key(parent)) == {str(child)}
            pipe.multi()
            pipe.srem(self.key(parent), child)
            if is_last:
                pipe.lpush(f"{self.prefix}ready", parent)

        self.client.transaction(step, self.key(parent))
