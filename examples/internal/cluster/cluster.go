// Package cluster provides a cluster for the examples: the one that -kubeconfig or -in-cluster
// selects, or else an API server within the process, which stores objects and answers like a
// Kubernetes API server but runs nothing.
package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// runTime limits an example, which takes a second or two on a remote cluster. Without it a
	// missing line would block forever.
	runTime = 2 * time.Minute
	// cleanTime limits the cleanup.
	cleanTime = 30 * time.Second
)

// Cluster is the cluster of an example.
type Cluster struct {
	Config *rest.Config
	// Namespace belongs to the example, and is deleted at the end.
	Namespace string

	client kubernetes.Interface
}

// Example is the body of an example program. It returns when it is done, or with an error if ctx ends first.
type Example func(ctx context.Context, c *Cluster) error

// Main is the main function of an example: it runs withTidings or, with the flag -clientgo, the
// same program written for client-go, which may be nil.
func Main(withTidings, withClientGo Example) {
	kubeconfig := flag.String("kubeconfig", "", "run against the cluster in this kubeconfig; the example creates a namespace and deletes it")
	inCluster := flag.Bool("in-cluster", false, "run against the cluster in which this program runs")
	useClientGo := false
	if withClientGo != nil {
		flag.BoolVar(&useClientGo, "clientgo", false, "run the program written for client-go")
	}
	flag.Parse()
	example := withTidings
	if useClientGo {
		example = withClientGo
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, end, err := connect(*kubeconfig, *inCluster)
	if err == nil {
		err = errors.Join(run(ctx, config, example), end())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// connect returns a config for the cluster that the flags select, and a function to call at the end.
func connect(kubeconfig string, inCluster bool) (config *rest.Config, end func() error, err error) {
	none := func() error { return nil }
	switch {
	case kubeconfig != "" && inCluster:
		return nil, nil, errors.New("use either -kubeconfig or -in-cluster")
	case kubeconfig != "":
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
		return config, none, err
	case inCluster:
		config, err = rest.InClusterConfig()
		return config, none, err
	}
	fmt.Fprintln(os.Stderr, "on an API server inside this process; -kubeconfig FILE runs it on a cluster")
	config, end = embedded(&process{})
	return config, end, nil
}

// run runs an example in a namespace with one object.
func run(ctx context.Context, config *rest.Config, example Example) (err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, runTime, fmt.Errorf("the example has not ended within %v", runTime))
	defer cancel()
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tidings-example-"}}
	if own, err = client.CoreV1().Namespaces().Create(ctx, own, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
		defer cancel()
		err = errors.Join(err, client.CoreV1().Namespaces().Delete(ctx, own.Name, metav1.DeleteOptions{}))
	}()
	c := &Cluster{Config: config, Namespace: own.Name, client: client}
	if err := c.create(ctx, "web"); err != nil {
		return err
	}
	return example(ctx, c)
}
