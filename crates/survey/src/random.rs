//! What looks random and is the same for the same seed.

/// Numbers that look random: splitmix64 by Sebastiano Vigna, in the public domain.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x6b65_7966_6f6c_6400)
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, and 0 where that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound.max(1)
    }

    /// A number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// So many of these bytes.
    pub fn text(&mut self, len: usize, of: &[u8]) -> Vec<u8> {
        (0..len).map(|_| *self.pick(of)).collect()
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }

    /// So many small letters.
    pub fn lower_case(&mut self, len: usize) -> String {
        (0..len).map(|_| char::from(*self.pick(b"abcdefghijklmnopqrstuvwxyz"))).collect()
    }

    /// So many letters.
    pub fn letters(&mut self, len: usize) -> Vec<u8> {
        self.text(len, b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    }

    /// So many hexadecimal digits.
    pub fn hex(&mut self, len: usize) -> Vec<u8> {
        self.text(len, b"0123456789abcdef")
    }

    /// A uuid of version 4.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.bits(), self.bits());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            0x8000 | low >> 48 & 0x3fff,
            low & 0xffff_ffff_ffff,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_for_the_same_seed() {
        assert_eq!(Random::new(7).uuid(), Random::new(7).uuid());
        assert_ne!(Random::new(7).uuid(), Random::new(8).uuid());
        let uuid = Random::new(1).uuid();
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
        assert_eq!(Random::new(1).letters(24).len(), 24);
        assert!(Random::new(1).hex(200).iter().all(u8::is_ascii_hexdigit));
    }
}
