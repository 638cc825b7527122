package store_test

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

type thing = metav1.PartialObjectMetadata

func newThing(name, app string) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}}}
}

func Example() {
	w := store.NewWriter[*thing](store.Options{})
	byApp := w.AddIndex("app", func(o *thing) []string { return []string{o.Labels["app"]} })

	txn := w.Begin()
	for _, o := range []*thing{newThing("a", "web"), newThing("b", "db"), newThing("c", "web")} {
		txn.Set(object.KeyOf(o), o)
	}
	txn.Advance("", "100")
	before := txn.Commit()

	txn = w.Begin()
	txn.Delete(object.Key{Namespace: "shop", Name: "a"})
	txn.Advance("", "101")
	txn.Commit()

	for o := range byApp.All("web") {
		fmt.Println("now:", o.Name)
	}
	for o := range before.ByIndex(byApp, "web") {
		fmt.Println("at", before.ResourceVersion()+":", o.Name)
	}
	// Output:
	// now: c
	// at 100: a
	// at 100: c
}

func ExampleSnapshot_Intersect() {
	w := store.NewWriter[*thing](store.Options{})
	byApp := w.AddIndex("app", func(o *thing) []string { return []string{o.Labels["app"]} })
	byInitial := w.AddIndex("initial", func(o *thing) []string { return []string{o.Name[:1]} })

	txn := w.Begin()
	txn.Load([]*thing{newThing("alpha", "web"), newThing("anna", "db"), newThing("beta", "web")})
	s := txn.Commit()

	matches := []store.Match[*thing]{{Index: byApp, Value: "web"}, {Index: byInitial, Value: "a"}}
	for o := range s.Intersect(matches...) {
		fmt.Println(o.Name)
	}
	// Output: alpha
}

func ExampleStore_WaitFor() {
	w := store.NewWriter[*thing](store.Options{})
	txn := w.Begin()
	txn.Advance("", "41")
	txn.Commit()

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(w.Store().WaitFor(ctx, "41"))
	fmt.Println(w.Store().WaitFor(ctx, "42"))
	// Output:
	// <nil>
	// waiting for resource version 42: the store is at resource version 41: context deadline exceeded
}
