package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

func withTidings() error {
	writer := store.NewWriter[*corev1.ConfigMap](store.Options{})
	byKeyword := writer.AddIndex("keyword", keywords)
	txn := writer.Begin()
	for _, b := range books() {
		txn.Set(object.KeyOf(b), b)
	}
	before := txn.Commit()
	for _, b := range before.Namespace("novels") {
		fmt.Println("in novels:", b.Name)
	}
	for b := range before.ByIndex(byKeyword, "sea") {
		fmt.Println("about the sea:", b.Name)
	}
	fmt.Println("keywords:", slices.Collect(before.Values(byKeyword)))

	txn = writer.Begin()
	txn.Delete(object.Key{Namespace: "travel", Name: "voyage"})
	txn.Commit()
	fmt.Println("about islands now:", writer.Store().Snapshot().Count(byKeyword, "islands"))
	return nil
}
