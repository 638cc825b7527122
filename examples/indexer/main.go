// Command indexer fills an indexed store by hand, without a server, and queries it by namespace and
// by keyword. An object can have any number of keywords.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	useClientGo := flag.Bool("clientgo", false, "run the program written for client-go")
	flag.Parse()
	example := withTidings
	if *useClientGo {
		example = withClientGo
	}
	if err := example(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// books are the objects in the stores.
func books() []*corev1.ConfigMap {
	return []*corev1.ConfigMap{
		book("novels", "emma", "love,irony"), book("novels", "persuasion", "love,sea"), book("travel", "voyage", "sea,islands"),
	}
}

func book(namespace, name, keywords string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"keywords": keywords}}}
}

func keywords(book *corev1.ConfigMap) []string {
	return strings.Split(book.Annotations["keywords"], ",")
}
