package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objects is the number of names from which the writers of one kind choose.
const objects = 400

// write creates, changes and deletes objects. It ignores errors, which faults cause.
func (s *soak) write(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		s.writing.RLock()
		request, cancel := context.WithTimeout(ctx, 5*time.Second)
		var err error
		if random.IntN(4) == 0 {
			err = s.writeLease(request, random)
		} else {
			err = s.writeConfigMap(request, random)
		}
		cancel()
		s.writing.RUnlock()
		if err == nil {
			s.writes.Add(1)
		}
		sleep(ctx, time.Duration(random.Int64N(int64(20*time.Millisecond))))
	}
}

func (s *soak) writeConfigMap(ctx context.Context, random *rand.Rand) error {
	maps := s.client.CoreV1().ConfigMaps("default")
	name := fmt.Sprint("soak-", random.IntN(objects))
	if random.IntN(6) == 0 {
		return maps.Delete(ctx, name, metav1.DeleteOptions{})
	}
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": fmt.Sprint(random.Uint64())}}
	if random.IntN(2) == 0 {
		o.Labels = map[string]string{"soak": "odd"}
	}
	_, err := maps.Update(ctx, o, metav1.UpdateOptions{})
	if err != nil {
		_, err = maps.Create(ctx, o, metav1.CreateOptions{})
	}
	return err
}

func (s *soak) writeLease(ctx context.Context, random *rand.Rand) error {
	leases := s.client.CoordinationV1().Leases([]string{"default", "kube-public"}[random.IntN(2)])
	name := fmt.Sprint("soak-", random.IntN(objects/10))
	found, err := leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	case random.IntN(6) == 0:
		err = leases.Delete(ctx, name, metav1.DeleteOptions{})
	default:
		holder, now := fmt.Sprint(random.Uint32()), metav1.NowMicro()
		found.Spec.HolderIdentity, found.Spec.RenewTime = &holder, &now
		_, err = leases.Update(ctx, found, metav1.UpdateOptions{})
	}
	return err
}

// disturb causes a fault every few seconds until the duration has passed, and compares everything after each.
func (s *soak) disturb(ctx context.Context, backup string) error {
	random := rand.New(rand.NewPCG(s.opts.Seed, 2000))
	faults := s.faults(backup)
	for n := 0; time.Since(s.began) < s.opts.Duration; n++ {
		if !sleep(ctx, time.Duration(2+random.IntN(6))*time.Second) {
			break
		}
		f := faults[n%len(faults)]
		if n >= len(faults) { // each once, then at random
			f = faults[random.IntN(len(faults))]
		}
		s.report.Faults[f.what]++
		s.report.FaultsAt = append(s.report.FaultsAt, time.Since(s.began))
		s.opts.Log.Info(f.what, "after", time.Since(s.began).Round(time.Second))
		if err := f.do(ctx, random); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", f.what, err)
		}
		if n%2 == 1 {
			s.compare(ctx)
		}
	}
	s.compare(ctx)
	return ctx.Err()
}

type fault struct {
	what string
	do   func(context.Context, *rand.Rand) error
}

func (s *soak) faults(backup string) []fault {
	return []fault{
		{"all connections cut", func(context.Context, *rand.Rand) error {
			s.network.cut()
			return nil
		}},
		{"API server killed and restarted", func(ctx context.Context, _ *rand.Rand) error {
			s.plane.Kill()
			return s.plane.Restart(ctx)
		}},
		{"network down for a few seconds", func(ctx context.Context, random *rand.Rand) error {
			s.network.setDown(true)
			defer s.network.setDown(false)
			s.network.cut()
			sleep(ctx, time.Duration(1+random.IntN(9))*time.Second)
			return nil
		}},
		{"etcd copied and restored later", func(ctx context.Context, random *rand.Rand) error { return s.restore(ctx, backup, random) }},
		{"API server shut down and restarted", func(ctx context.Context, _ *rand.Rand) error {
			if err := s.plane.Stop(ctx); err != nil {
				return err
			}
			return s.plane.Restart(ctx)
		}},
	}
}

// restore copies etcd's data, lets the writers continue for some seconds, and restores the copy.
func (s *soak) restore(ctx context.Context, backup string, random *rand.Rand) error {
	if err := s.plane.Stop(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(backup); err != nil {
		return err
	}
	if err := os.CopyFS(backup, os.DirFS(s.data)); err != nil {
		return err
	}
	if err := s.plane.Restart(ctx); err != nil {
		return err
	}
	sleep(ctx, time.Duration(3+random.IntN(8))*time.Second)
	if err := s.plane.Stop(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(s.data); err != nil {
		return err
	}
	if err := os.CopyFS(s.data, os.DirFS(backup)); err != nil {
		return err
	}
	return s.plane.Restart(ctx)
}
