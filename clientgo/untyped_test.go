package clientgo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/tidingstest"
)

// TestNothingIsLostBehindAnInterface: a client-go informer does what a native one does, although
// its source only learns the type at run time: audits list metadata only, writes to shared parts of
// objects are found, and the budget counts what the decoder remembers.
func TestNothingIsLostBehindAnInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		create := func(name string) {
			server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{"app": "same"}}})
		}
		for i := range 20 {
			create(fmt.Sprint(i))
		}
		var written []string
		f := clientgo.NewSharedInformerFactory(server.Config(), 0, clientgo.WithOptions(tidings.Options{
			Audit: time.Minute, MemoryBudget: 1 << 30, OnMutation: func(m tidings.Mutation) { written = append(written, m.Field) },
		}))
		maps := f.Core().V1().ConfigMaps()
		maps.Informer()
		ctx, cancel := context.WithCancel(t.Context())
		f.Start(ctx.Done())
		f.WaitForCacheSync(ctx.Done())
		time.Sleep(5 * time.Minute)
		synctest.Wait() // or the guard looks at the objects while one is written to below
		native, _ := clientgo.Native(f)
		if audit := native.Status()[0].Parts[0].Audit; audit.Completed < 3 || audit.Differences != 0 {
			t.Errorf("audits: %+v", audit)
		}
		for _, r := range server.Requests(tidingstest.List) {
			if r.Query.Get("resourceVersionMatch") == "Exact" && !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
				t.Errorf("an audit lists whole objects: %s", r.Header.Get("Accept"))
			}
		}
		held, err := maps.Lister().ConfigMaps("a").Get("7")
		if err != nil {
			t.Fatal(err)
		}
		held.Labels["app"] = "spoilt"
		for i := range 100 {
			create(fmt.Sprint("later", i))
		}
		synctest.Wait()
		if len(written) == 0 { // that the labels are shared may be noticed before or after the objects that have them
			t.Error("a write to labels that objects share was not reported")
		}
		cancel()
		f.Shutdown()
	})
}
