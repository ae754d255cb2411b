// Reads manifests as Kubernetes' own types, strictly: a field that a type doesn't have, twice, or of another kind is an error.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func check(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	for count := 0; ; count++ {
		document := make([]byte, len(text)+1)
		length, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, err
		}
		_, kind, err := strict.Decode(document[:length], nil, nil)
		if err != nil {
			return count, fmt.Errorf("%s, document %d: %w", path, count+1, err)
		}
		fmt.Printf("%s: %s\n", path, kind)
	}
}

func main() {
	for _, path := range os.Args[1:] {
		if count, err := check(path); err != nil || count == 0 {
			fmt.Fprintln(os.Stderr, "error:", err, "after", count, "documents")
			os.Exit(1)
		}
	}
}
