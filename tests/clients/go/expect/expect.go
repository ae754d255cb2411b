// Package expect ends a session on the first wrong answer.
package expect

import (
	"fmt"
	"os"
	"reflect"
)

// Equal compares an answer with what it has to be.
func Equal(what string, actual, expected any) {
	if !reflect.DeepEqual(actual, expected) {
		fmt.Fprintf(os.Stderr, "%s: got %#v, not %#v\n", what, actual, expected)
		os.Exit(1)
	}
}

// Must returns the value of a command that may not fail.
func Must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}
