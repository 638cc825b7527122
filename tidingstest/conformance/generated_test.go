package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

var histories = flag.Int("histories", 0,
	"how many random histories of generated writes to compare, in place of some that are always the same")

// fixedHistories is how many histories are always compared. They are the same each time: what random ones show is for
// somebody who looks for differences, not for somebody who changes something else.
const fixedHistories = 15

// TestGeneratedWrites: random histories of writes, valid and invalid ones, have the same answers from both servers.
// A history ends at the first difference, because what comes after follows from it.
func TestGeneratedWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real API server")
	}
	tidingstest.CheckLeaks(t)
	real := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true}).Config()
	ours := tidingstest.NewServer(t, tidingstest.ServerOptions{}).Config()
	for _, config := range []*rest.Config{real, ours} {
		config.QPS = -1
		r := newRunner(t, config, "conformance-generated-"+randomSuffix())
		r.step(&step{verb: "POST", target: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
			body: generatedCRD})
		r.step(&step{verb: "WAIT",
			target: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.generated.example.com Established"})
		if got := r.step(&step{verb: "WAIT", target: "/apis/generated.example.com/v1/things"}); got != "200" {
			t.Fatal("the custom resource is not served")
		}
	}
	if *histories > 0 || os.Getenv(testseed.Variable) != "" {
		testseed.Each(t, *histories, func(t *testing.T, seed uint64) { compareHistory(t, real, ours, seed) })
		return
	}
	for seed := range uint64(fixedHistories) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { compareHistory(t, real, ours, seed) })
	}
}

func compareHistory(t *testing.T, real, ours *rest.Config, seed uint64) {
	namespace := "conformance-generated-" + randomSuffix()
	a, b := newRunner(t, real, namespace), newRunner(t, ours, namespace)
	g := &generator{
		Rand: rand.New(rand.NewPCG(seed, 0)), versions: func() int { return a.symbols.counts["v"] }, uids: func() int { return a.symbols.counts["uid"] },
	}
	var history strings.Builder
	for range 80 {
		st := g.step()
		want, got := a.step(st), b.step(st)
		code, _, _ := strings.Cut(want, "\n")
		fmt.Fprintf(&history, "%s %s %s %s -> %s\n", st.verb, st.target, strings.Join(st.headers, ","), st.body, code)
		switch want, got := withoutTexts(want), withoutTexts(got); {
		case alike(want, got):
		case sortedAnew(want, got):
			t.Log("ended early: entries of managedFields were sorted anew")
			return
		default:
			t.Fatalf("- is the real server's answer, + the test server's, to the last of these:\n%s\n%s",
				history.String(), cmp.Diff(want, got))
		}
	}
}

var versionLine = regexp.MustCompile(`"resourceVersion": .*`)

// sortedAnew reports whether a write that changes nothing may have made a new version at one server because entries of
// managedFields from the same second were sorted in another order. From then on the versions differ.
func sortedAnew(want, got string) bool {
	return strings.Count(want, `"operation": "Update"`) > 1 &&
		alike(versionLine.ReplaceAllLiteralString(want, ""), versionLine.ReplaceAllLiteralString(got, ""))
}

// withoutTexts reduces an error to its code, reason and fields. The scripts compare the texts of errors.
func withoutTexts(answer string) string {
	code, content, _ := strings.Cut(answer, "\n")
	var status metav1.Status
	if i := strings.Index(content, "{"); i < 0 || json.Unmarshal([]byte(content[i:]), &status) != nil ||
		status.Status != metav1.StatusFailure {
		return answer
	}
	fields := map[string]bool{}
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			fields[cause.Field] = true
		}
	}
	return fmt.Sprint(code, " ", status.Reason, " ", slices.Sorted(maps.Keys(fields)))
}
