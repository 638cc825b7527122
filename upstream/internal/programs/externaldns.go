package programs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var externalDNS = Program{
	Name: "external-dns", Module: "sigs.k8s.io/external-dns", Version: "v0.21.0", License: "Apache-2.0",
	About: fmt.Sprintf("It caches Services, pods, nodes and EndpointSlices, of which it keeps only what its "+
		"transforms leave, and names the addresses of %d Services in a zone that it holds in memory. %d pods change "+
		"%d times, each Service changes its address twice, and a tenth of them are deleted. Each engine has "+
		"controller-runtime %s, as the client-go that Tidings needs asks for.",
		zonePods/5, zonePods, zoneChanges, zoneRuntime),
	Main: ".", Packages: []string{"./source/..."}, play: playExternalDNS, untidy: true,
	edits: []string{
		"-require=sigs.k8s.io/controller-runtime@" + zoneRuntime,
		"-exclude=vbom.ml/util@v0.0.0-20160121211510-db5cfe13f5cc", // nobody serves it, and nothing needs it
	},
}

const (
	zonePods, zoneChanges = 5_000, 20_000
	zoneRuntime           = "v0.24.0"
)

func playExternalDNS(ctx context.Context, s *session) ([]string, error) {
	all := pods(zonePods)
	var services []*corev1.Service
	for i, pod := range all {
		s.server.Create(pod)
		if i%5 != 0 {
			continue
		}
		for _, obj := range companions(i, pod) {
			if service, ok := obj.(*corev1.Service); ok {
				service.Name, service.Namespace = fmt.Sprintf("named-%04d", i), "default"
				publish(service, i)
				services = append(services, service)
				obj = service
			}
			s.server.Create(obj)
		}
	}
	kubeconfig, err := s.kubeconfig()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	err = s.start("--kubeconfig", kubeconfig, "--source", "service", "--provider", "inmemory",
		"--inmemory-zone", "example.com", "--registry", "noop", "--interval", "2s", "--log-format", "json",
		"--metrics-address", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	err = s.await(ctx, "a name for each Service", func() (bool, error) {
		zone, err := s.zone()
		return len(zone) == len(services), err
	})
	if err != nil {
		return nil, err
	}
	if err := s.synced(); err != nil {
		return nil, err
	}
	left := s.disturbExternalDNS(all, services)
	err = s.await(ctx, "the names of what is left", func() (bool, error) {
		zone, err := s.zone()
		return len(zone) == left && zone["the-last-service.example.com A"] != "", err
	})
	if err != nil {
		return nil, err
	}
	zone, err := s.zone()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(zone)) {
		lines = append(lines, name+" "+zone[name])
	}
	return lines, err
}

// publish gives a Service a name in the zone and the n-th address of a load balancer.
func publish(service *corev1.Service, n int) {
	service.Annotations = map[string]string{
		"external-dns.alpha.kubernetes.io/hostname": service.Name + ".example.com",
	}
	service.Spec.Type = corev1.ServiceTypeLoadBalancer
	ip := fmt.Sprintf("192.%d.%d.%d", n>>16&255, n>>8&255, n&255)
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
}

// disturbExternalDNS changes pods and the addresses of Services, deletes some, and makes one more. It returns how many
// there are.
func (s *session) disturbExternalDNS(all []*corev1.Pod, services []*corev1.Service) int {
	for i := range zoneChanges {
		pod := all[i*7%len(all)]
		change(pod)
		s.server.Update(pod)
	}
	for round := range 2 {
		for i, service := range services {
			publish(service, (round+1)<<16+i)
			s.server.Update(service)
		}
	}
	left := len(services)
	for i, service := range services {
		if i%10 == 0 {
			s.server.Delete(service)
			left--
		}
	}
	last := services[0].DeepCopy()
	last.Name, last.UID = "the-last-service", ""
	publish(last, 9)
	s.server.Create(last)
	return left + 1
}

// zone returns the records that the program holds, from what it has logged of its changes: the targets by name and
// type.
func (s *session) zone() (map[string]string, error) {
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return nil, err
	}
	zone := map[string]string{}
	for line := range strings.Lines(string(log)) {
		var entry struct{ Msg string }
		if json.Unmarshal([]byte(line), &entry) != nil {
			continue // it is being written
		}
		change, record, _ := strings.Cut(entry.Msg, ": ")
		fields := strings.Fields(record) // name, TTL, "IN", type, targets
		if len(fields) < 5 {
			continue
		}
		key := fields[0] + " " + fields[3]
		switch change {
		case "CREATE", "UPDATE (new)":
			zone[key] = fields[4]
		case "DELETE":
			delete(zone, key)
		}
	}
	return zone, nil
}
