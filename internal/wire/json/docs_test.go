package json

import (
	"encoding/json"
	"testing"

	"github.com/tidings/tidings/internal/wire/wiretest"
)

// podDocs returns pods as in a JSON watch.
func podDocs(t testing.TB, n int) [][]byte {
	t.Helper()
	docs := make([][]byte, 0, n)
	for _, pod := range wiretest.Pods(n, 1) {
		pod.APIVersion, pod.Kind = "v1", "Pod"
		data, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, data)
	}
	return docs
}
