package serve

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/tidingstest"
)

// benchPods is how many pods the benchmarks have.
const benchPods = 5000

func benchFixture(b *testing.B) (*fixture, []*corev1.Pod) {
	f := newFixture(b, 0, tidingstest.ServerOptions{}, Options{})
	pods := wiretest.Pods(benchPods, 1)
	for _, pod := range pods {
		pod.ResourceVersion = ""
		f.Create(pod)
	}
	o := Options{Config: f.config, Resources: []string{"pods"}, WriteTimeout: time.Minute}
	f.replicas = []*running{startReplica(b, o)}
	return f, pods
}

// benchClient is a client with a connection of its own, which decompresses nothing by itself.
func benchClient(b *testing.B, config *rest.Config) *http.Client {
	c, err := config.TransportConfig()
	if err != nil {
		b.Fatal(err)
	}
	t, err := transport.TLSConfigFor(c)
	if err != nil {
		b.Fatal(err)
	}
	plain := &http.Transport{TLSClientConfig: t, ForceAttemptHTTP2: true, DisableCompression: true}
	rt, err := transport.HTTPWrappersForConfig(c, plain)
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: rt}
	b.Cleanup(client.CloseIdleConnections)
	return client
}

func benchGet(b *testing.B, ctx context.Context, client *http.Client, url string, gzip bool) io.ReadCloser {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
	if gzip {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	response, err := client.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		b.Fatal(response, err)
	}
	return response.Body
}

// BenchmarkList lists all pods. The processor time of the client, which only discards what it reads, is included.
func BenchmarkList(b *testing.B) {
	f, _ := benchFixture(b)
	config := f.replicas[0].config(as(f.config, "user"))
	client := benchClient(b, config)
	for _, gzip := range []bool{true, false} {
		b.Run(fmt.Sprint("gzip=", gzip), func(b *testing.B) {
			size, before := int64(0), processorTime()
			for b.Loop() {
				body := benchGet(b, b.Context(), client, config.Host+"/api/v1/pods?resourceVersion=0", gzip)
				n, err := io.Copy(io.Discard, body)
				if err != nil {
					b.Fatal(err)
				}
				body.Close()
				size = n
			}
			b.ReportMetric(float64(size)/benchPods, "bytes/pod")
			b.ReportMetric(float64(processorTime()-before)/float64(b.N)/benchPods, "cpu-ns/pod")
		})
	}
}

// BenchmarkWatch changes pods that 200 watchers follow, on two connections. An operation is an event of a watcher.
func BenchmarkWatch(b *testing.B) {
	const watchers, sharing = 200, 100
	f, pods := benchFixture(b)
	config := f.replicas[0].config(as(f.config, "user"))
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var reading sync.WaitGroup
	c := f.replicas[0].resources[0].Collection
	version := c.Stats().Version
	seen := make(chan struct{}, watchers)
	var client *http.Client
	for i := range watchers {
		if i%sharing == 0 {
			client = benchClient(b, config)
		}
		path := fmt.Sprint(config.Host, "/api/v1/pods?watch=true&resourceVersion=", version)
		body := benchGet(b, ctx, client, path, false)
		reading.Go(func() {
			defer body.Close()
			r := bufio.NewReader(body)
			var head [4]byte
			for {
				if _, err := io.ReadFull(r, head[:]); err != nil {
					return
				}
				if _, err := r.Discard(int(binary.BigEndian.Uint32(head[:]))); err != nil {
					return
				}
				seen <- struct{}{}
			}
		})
	}
	before, events := processorTime(), 0
	for b.Loop() {
		if events%watchers == 0 {
			version++
			pod := pods[int(version)%len(pods)]
			raw, _ := c.Held(object.KeyOf(pod))
			c.Add([]object.Delta[*codec.Raw]{{
				Type: object.Updated, Key: object.KeyOf(pod),
				Object: raw.WithResourceVersion(replica.Format(version)).(*codec.Raw),
			}}, replica.Format(version))
			for range watchers {
				<-seen
			}
		}
		events++
	}
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
	cancel()
	reading.Wait()
}

// processorTime returns the time that the processors have worked for this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the process itself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
