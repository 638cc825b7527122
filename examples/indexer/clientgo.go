package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/clientgo/cache"
)

func withClientGo() error {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"keyword":            func(obj any) ([]string, error) { return keywords(obj.(*corev1.ConfigMap)), nil },
	})
	for _, b := range books() {
		if err := indexer.Add(b); err != nil {
			return err
		}
	}
	if err := show(indexer, cache.NamespaceIndex, "novels", "in novels:"); err != nil {
		return err
	}
	if err := show(indexer, "keyword", "sea", "about the sea:"); err != nil {
		return err
	}
	values := indexer.ListIndexFuncValues("keyword")
	slices.Sort(values)
	fmt.Println("keywords:", values)

	if err := indexer.Delete(book("travel", "voyage", "")); err != nil {
		return err
	}
	left, err := indexer.ByIndex("keyword", "islands")
	if err != nil {
		return err
	}
	fmt.Println("about islands now:", len(left))
	return nil
}

// show prints the names of the objects with an index value, sorted because they come in any order.
func show(indexer cache.Indexer, index, value, about string) error {
	found, err := indexer.ByIndex(index, value)
	if err != nil {
		return err
	}
	var names []string
	for _, obj := range found {
		names = append(names, obj.(*corev1.ConfigMap).Name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Println(about, name)
	}
	return nil
}
