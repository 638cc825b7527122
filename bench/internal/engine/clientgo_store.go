package engine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	upstream "k8s.io/client-go/util/workqueue"
)

type clientGoStore struct {
	indexer cache.Indexer
	lister  listers.PodLister
	batch   []cache.Transaction
}

func newClientGoStore(pods []corev1.Pod) *clientGoStore {
	byNode := func(obj any) ([]string, error) { return podNode(obj.(*corev1.Pod)), nil }
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "node": byNode})
	s := &clientGoStore{indexer: indexer, lister: listers.NewPodLister(indexer)}
	for i := range pods {
		s.Write([]*corev1.Pod{&pods[i]})
	}
	return s
}

// Write does what client-go's informers do: one pod is an update, several are a transaction.
func (s *clientGoStore) Write(pods []*corev1.Pod) {
	if len(pods) == 1 {
		if err := s.indexer.Update(pods[0]); err != nil {
			panic(err) // pods have keys
		}
		return
	}
	s.batch = s.batch[:0]
	for _, pod := range pods {
		s.batch = append(s.batch, cache.Transaction{Object: pod, Type: cache.TransactionTypeUpdate})
	}
	if err := s.indexer.(cache.TransactionStore).Transaction(s.batch...); err != nil {
		panic(err) // pods have keys
	}
}

func (s *clientGoStore) Get(namespace, name string) (*corev1.Pod, bool) {
	pod, err := s.lister.Pods(namespace).Get(name)
	return pod, err == nil
}

func (s *clientGoStore) ListNamespace(namespace string) int {
	return listNamespace(s.indexer, namespace)
}

func listNamespace(indexer cache.Indexer, namespace string) (found int) {
	err := cache.ListAllByNamespace(indexer, namespace, labels.Everything(), func(obj any) {
		if named(obj.(*corev1.Pod)) {
			found++
		}
	})
	if err != nil {
		panic(err) // the index exists
	}
	return found
}

func (s *clientGoStore) List() (found int) {
	for _, obj := range s.indexer.List() {
		if named(obj.(*corev1.Pod)) {
			found++
		}
	}
	return found
}

func (s *clientGoStore) ByNode(node string) (found int) {
	objects, err := s.indexer.ByIndex("node", node)
	if err != nil {
		panic(err) // the index exists
	}
	for _, obj := range objects {
		if named(obj.(*corev1.Pod)) {
			found++
		}
	}
	return found
}

func newClientGoQueue() func(string) {
	queue := upstream.NewTypedRateLimitingQueue(upstream.DefaultTypedControllerRateLimiter[string]())
	return func(item string) {
		queue.Add(item)
		got, _ := queue.Get()
		queue.Done(got)
	}
}
