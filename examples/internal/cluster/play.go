package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Play changes the objects in the namespace, in which there is a Service "web": it creates "db",
// changes "web", and deletes "db". After each step it calls seen, which waits until the example has
// shown the change. The services are just DNS aliases (ExternalName), which no controller of a
// cluster touches.
func (c *Cluster) Play(ctx context.Context, seen func() error) error {
	steps := []func() error{
		func() error { return c.create(ctx, "db") },
		func() error { return c.update(ctx, "web", "www.example.com") },
		func() error {
			return c.client.CoreV1().Services(c.Namespace).Delete(ctx, "db", metav1.DeleteOptions{})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
		if err := seen(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) create(ctx context.Context, name string) error {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: name + ".example.com"},
	}
	_, err := c.client.CoreV1().Services(c.Namespace).Create(ctx, s, metav1.CreateOptions{})
	return err
}

func (c *Cluster) update(ctx context.Context, name, host string) error {
	s, err := c.client.CoreV1().Services(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s.Spec.ExternalName = host
	_, err = c.client.CoreV1().Services(c.Namespace).Update(ctx, s, metav1.UpdateOptions{})
	return err
}

// News passes lines from an example's handlers to its main goroutine, which prints each one after
// the step that it belongs to. Thus every run prints the same.
type News chan string

// NewNews returns a News with a buffer for lines that an example does not wait for.
func NewNews() News { return make(News, 16) }

// Say sends a line.
func (n News) Say(format string, args ...any) { n <- fmt.Sprintf(format, args...) }

// Print waits for the next line and prints it.
func (n News) Print(ctx context.Context) error { return n.PrintUnless(ctx, nil) }

// PrintUnless is like Print, but returns early if the program that sends the lines has ended.
func (n News) PrintUnless(ctx context.Context, ended chan error) error {
	select {
	case err := <-ended:
		ended <- err // for the caller, who waits for it
		return errors.New("the example ended early")
	case line := <-n:
		fmt.Println(line)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
