package programs

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
)

var coreDNS = Program{
	Name: "coredns", Module: "github.com/coredns/coredns", Version: "v1.15.0", License: "Apache-2.0",
	About: fmt.Sprintf("Its plugin `kubernetes` has queues and stores of its own behind a reflector, and keeps "+
		"shortened objects. %d pods and %d Services, half of them headless; their endpoints change %d times, and a "+
		"tenth of the Services are deleted.", dnsPods, dnsPods/5, dnsChanges),
	Main: ".", Packages: []string{"./plugin/kubernetes/..."}, play: playCoreDNS, untidy: true,
}

const dnsPods, dnsChanges = 5_000, 20_000

// corefile configures the program: its port and the kubeconfig have to be filled in.
const corefile = `.:%s {
	bind 127.0.0.1
	kubernetes cluster.local in-addr.arpa {
		kubeconfig %s test
		pods verified
	}
}
`

// dnsWorld are the objects that answers come from.
type dnsWorld struct {
	services []*corev1.Service
	slices   []*discoveryv1.EndpointSlice
	pods     []*corev1.Pod
	resolver *net.Resolver
}

func playCoreDNS(ctx context.Context, s *session) ([]string, error) {
	w := newDNSWorld(s)
	kubeconfig, err := s.kubeconfig()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	w.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	}}
	config := filepath.Join(s.dir, "Corefile")
	if err := os.WriteFile(config, fmt.Appendf(nil, corefile, port, kubeconfig), 0o600); err != nil {
		return nil, err
	}
	if err := s.start("-conf", config); err != nil {
		return nil, err
	}
	last := w.services[len(w.services)-1]
	if err := s.awaitName(ctx, w, last.Name, last.Namespace); err != nil {
		return nil, err
	}
	if err := s.synced(); err != nil {
		return nil, err
	}
	w.disturb(s)
	if err := s.awaitName(ctx, w, "the-last-service", "default"); err != nil {
		return nil, err
	}
	err = s.await(ctx, "the address that changed last", func() (bool, error) {
		return slices.Contains(w.lookUp(ctx, "the-last-endpoint", "default"), "10.9.9.9"), nil
	})
	return w.answers(ctx), err
}

// awaitName waits until a Service has an address.
func (s *session) awaitName(ctx context.Context, w *dnsWorld, name, namespace string) error {
	return s.await(ctx, "an address of "+name, func() (bool, error) {
		return net.ParseIP(w.lookUp(ctx, name, namespace)[0]) != nil, nil
	})
}

// newDNSWorld loads the server.
func newDNSWorld(s *session) *dnsWorld {
	w := &dnsWorld{pods: pods(dnsPods)}
	namespaces := map[string]bool{"default": true}
	for i, pod := range w.pods {
		s.server.Create(pod)
		namespaces[pod.Namespace] = true
		if i%5 != 0 {
			continue
		}
		for _, obj := range companions(i, pod) {
			switch obj := obj.(type) {
			case *corev1.Service:
				if i%10 == 0 {
					obj.Spec.ClusterIP, obj.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
				}
				w.services = append(w.services, obj)
				s.server.Create(obj)
			case *discoveryv1.EndpointSlice:
				w.slices = append(w.slices, obj)
				s.server.Create(obj)
			}
		}
	}
	for name := range namespaces {
		s.server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return w
}

// disturb changes endpoints, deletes Services, and makes one more.
func (w *dnsWorld) disturb(s *session) {
	for i := range dnsChanges {
		slice := w.slices[i*7%len(w.slices)]
		slice.Endpoints[0].Addresses = []string{fmt.Sprintf("10.%d.%d.%d", 1+i>>16, i>>8&255, i&255)}
		s.server.Update(slice)
	}
	for i, service := range w.services {
		if i%10 == 0 {
			s.server.Delete(service)
		}
	}
	service, slice := w.services[0].DeepCopy(), w.slices[0].DeepCopy()
	for _, name := range []string{"the-last-service", "the-last-endpoint"} {
		service.Namespace, service.Name, service.UID = "default", name, ""
		slice.Namespace, slice.Name, slice.UID = "default", name, ""
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: name}
		slice.Endpoints[0].Addresses = []string{"10.9.9.9"}
		s.server.Create(slice)
		s.server.Create(service)
	}
}

// lookUp returns the addresses of a Service, sorted, or the answer that there is none.
func (w *dnsWorld) lookUp(ctx context.Context, name, namespace string) []string {
	addresses, err := w.resolver.LookupHost(ctx, name+"."+namespace+".svc.cluster.local.")
	if err != nil {
		return []string{dnsError(err)}
	}
	slices.Sort(addresses)
	return addresses
}

// dnsError describes a failed lookup without the addresses of the connection.
func dnsError(err error) string {
	if dns, ok := err.(*net.DNSError); ok && dns.IsNotFound {
		return "not found"
	}
	return "failed"
}

// answers asks for all Services, the names of their ports, and the names of pods' addresses.
func (w *dnsWorld) answers(ctx context.Context) (lines []string) {
	for _, service := range w.services {
		host := service.Name + "." + service.Namespace + ".svc.cluster.local."
		_, ports, err := w.resolver.LookupSRV(ctx, "http", "tcp", host)
		line := fmt.Sprintf("%s: %v, ports", object.KeyOf(service), w.lookUp(ctx, service.Name, service.Namespace))
		if err != nil {
			line += " " + dnsError(err)
		}
		for _, p := range ports {
			line += fmt.Sprintf(" %s:%d", p.Target, p.Port)
		}
		lines = append(lines, line)
	}
	for i, pod := range w.pods {
		if i%10 != 0 {
			continue
		}
		name := strings.ReplaceAll(pod.Status.PodIP, ".", "-") + "." + pod.Namespace + ".pod.cluster.local."
		addresses, err := w.resolver.LookupHost(ctx, name)
		if err != nil {
			addresses = []string{dnsError(err)}
		}
		lines = append(lines, fmt.Sprintf("%s: %v", name, addresses))
	}
	slices.Sort(lines)
	return lines
}
