package clientgo_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	theirs "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	mine "github.com/tidings/tidings/clientgo/informers/core/v1"
	"github.com/tidings/tidings/tidingstest"
)

// TestConstructors: the constructors of group packages make informers that have what client-go's have, and send the
// same requests.
func TestConstructors(t *testing.T) {
	onNode := func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName=node-1" }
	type made struct{ pods, filtered, nodes cache.SharedIndexInformer }
	synctest.Test(t, func(t *testing.T) {
		server := shopServer(t, tidingstest.ServerOptions{})
		server.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
		client := kubernetes.NewForConfigOrDie(configOf(server, "mine"))
		ours := made{
			mine.NewPodInformer(client, "shop", time.Hour, cache.Indexers{"label": byLabel}),
			mine.NewFilteredPodInformer(client, "", 0, nil, onNode),
			mine.NewNodeInformer(client, 0, nil),
		}
		client = kubernetes.NewForConfigOrDie(configOf(server, "theirs"))
		clientGos := made{
			theirs.NewPodInformer(client, "shop", time.Hour, cache.Indexers{"label": byLabel}),
			theirs.NewFilteredPodInformer(client, "", 0, nil, onNode),
			theirs.NewNodeInformer(client, 0, nil),
		}
		overFake := mine.NewPodInformer(fake.NewClientset(shopPod("shop", "web", "front", "node-1")), "shop", 0, nil)
		all := []cache.SharedIndexInformer{
			ours.pods, ours.filtered, ours.nodes, clientGos.pods, clientGos.filtered, clientGos.nodes, overFake,
		}
		for _, inf := range all {
			run(t, inf)
		}
		synctest.Wait()
		expectSame(t, ours.pods, clientGos.pods)
		expectSame(t, ours.filtered, clientGos.filtered)
		if n := len(ours.nodes.GetStore().List()); n != 1 || ours.pods.GetIndexer().GetIndexers()["label"] == nil {
			t.Errorf("%d nodes, indexers %v", n, ours.pods.GetIndexer().GetIndexers())
		}
		if n := len(overFake.GetStore().List()); n != 1 {
			t.Errorf("over a fake client: %d pods", n)
		}
		sent, native := requestsOf(server, "mine")
		if want, _ := requestsOf(server, "theirs"); !native || !slices.Equal(slices.Sorted(slices.Values(sent)), slices.Sorted(slices.Values(want))) {
			t.Errorf("read natively: %t; requests %q, want %q", native, sent, want)
		}
	})
}

func TestBadConstructor(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "*clientgo_test.Widget is not in client-go's") {
			t.Errorf("the panic is %q", got)
		}
	}()
	clientgo.NewBuiltinInformer[*Widget](nil, "", internalinterfaces.InformerOptions{})
}

// TestGroupPackages: every package for a version of a group declares what client-go's declares.
func TestGroupPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}} {{.Module.Version}}", "k8s.io/client-go/informers").Output()
	must(t, err)
	dir, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	folders, err := filepath.Glob(filepath.Join(dir, "*", "*", "interface.go"))
	must(t, err)
	tested := 0
	for _, file := range folders {
		folder, _ := filepath.Rel(dir, filepath.Dir(file))
		ours, theirs := declarations(t, filepath.Join("informers", folder)), declarations(t, filepath.Dir(file))
		if len(ours) == 0 && (folder == "scheduling/v1alpha2" || !strings.HasPrefix(version, "v0.36.")) {
			continue
		}
		tested++
		for _, name := range slices.Sorted(maps.Keys(theirs)) {
			if want := theirs[name]; ours[name] != want && (ours[name] != "" || strings.HasPrefix(version, "v0.36.")) {
				t.Errorf("%s: %s is %q, want %q", folder, name, ours[name], want)
			}
		}
	}
	if tested < 40 {
		t.Errorf("%d packages", tested)
	}
}

// declarations returns the exported types of a package, and its exported functions with their signatures.
func declarations(t *testing.T, folder string) map[string]string {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	must(t, err)
	found := map[string]string{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					var text bytes.Buffer
					must(t, printer.Fprint(&text, token.NewFileSet(), d.Type))
					found[d.Name.Name] = text.String()
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if of, ok := spec.(*ast.TypeSpec); ok && of.Name.IsExported() {
						found[of.Name.Name] = "type"
					}
				}
			}
		}
	}
	return found
}
