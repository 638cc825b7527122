package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tailed are the resources that "tidings tail" follows, as arguments.
var tailed = []string{"configmaps", "secrets", "widgets", "pods", "replicasets", "replicationcontrollers"}

// startTail starts "tidings tail" and waits until it follows everything.
func startTail(ctx context.Context, out *printer, program, kubeconfig string) (*child, error) {
	args := []string{"tail", strings.Join(tailed, ","), "--fields", "--namespace", namespace, "--record", recordingFile}
	out.say("   $ %s %s", filepath.Base(program), strings.Join(args, " "))
	args[len(args)-1] = recordingOf(program)
	out.say("   Each line shows what changed, from what to what, and by whom. The values of a secret are never shown.")
	tail, err := startChild(out, "tail", asPrinted, program, append(args, "--kubeconfig", kubeconfig)...)
	if err != nil {
		return nil, err
	}
	if err := tail.await(ctx, len(tailed), `up to date with`); err != nil {
		tail.kill()
		return nil, err
	}
	return tail, nil
}

// recordingFile is the recording of everything that tail shows, in the folder of the program, which
// is deleted at the end.
const recordingFile = "demo.tidings"

// replicaSetName is the ReplicaSet whose timeline the demo ends with.
const replicaSetName = "web"

func recordingOf(program string) string { return filepath.Join(filepath.Dir(program), recordingFile) }

// showTimeline tells, from the recording, what happened to a ReplicaSet and its pods.
func showTimeline(ctx context.Context, out *printer, program string) error {
	out.step("Tell from the recording what happened to a ReplicaSet")
	args := []string{"timeline", "rs/" + replicaSetName, "--tree", "--from", recordingFile}
	out.say("   $ %s %s", filepath.Base(program), strings.Join(args, " "))
	args[len(args)-1] = recordingOf(program)
	text, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("timeline: %w\n%s", err, text)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	out.quote("timeline", lines)
	if !slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, "rs/"+replicaSetName+" ") && strings.Contains(line, " new")
	}) {
		return fmt.Errorf("the timeline does not tell that the ReplicaSet was created:\n%s", text)
	}
	return nil
}

func asPrinted(lines []string) []string { return lines }

// showChanges creates, changes and deletes objects, each after tail has shown the previous change.
func showChanges(ctx context.Context, out *printer, c *cluster, tail *child) error {
	for _, change := range []struct {
		title string
		act   func(context.Context) error
		told  string // the line in which tail shows the change
	}{
		{"create a config map", c.createSettings, `ADDED +configmaps demo/settings`},
		{"change two of its values and a label", c.changeSettings, `\+ metadata\.labels\.tier`},
		{"create a secret", c.createSecret, `ADDED +secrets demo/login`},
		{"change its password", c.changeSecret, `~ data\.password: .*redacted`},
		{"create an object of a custom resource", c.createWidget, `ADDED +widgets.example.com demo/gear`},
		{"change an item of a list in it", c.changeWidget, `teeth.*12 → 13`},
		{"create a pod", c.createPod, `ADDED +pods demo/lonely`},
		{"delete it", c.deletePod, `DELETED +pods demo/lonely`},
		{"delete the config map", c.deleteSettings, `DELETED +configmaps demo/settings`},
	} {
		out.say("   - %s", change.title)
		if err := change.act(ctx); err != nil {
			return fmt.Errorf("%s: %w", change.title, err)
		}
		if err := tail.await(ctx, 1, change.told); err != nil {
			return err
		}
	}
	return nil
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}
}

func (c *cluster) createSettings(ctx context.Context) error {
	settings := &corev1.ConfigMap{ObjectMeta: meta("settings"), Data: map[string]string{"color": "green", "size": "3"}}
	_, err := c.client.CoreV1().ConfigMaps(namespace).Create(ctx, settings, metav1.CreateOptions{})
	return err
}

func (c *cluster) changeSettings(ctx context.Context) error {
	settings := &corev1.ConfigMap{ObjectMeta: meta("settings"), Data: map[string]string{"color": "blue", "size": "4"}}
	settings.Labels["tier"] = "front"
	_, err := c.client.CoreV1().ConfigMaps(namespace).Update(ctx, settings, metav1.UpdateOptions{})
	return err
}

func (c *cluster) deleteSettings(ctx context.Context) error {
	return c.client.CoreV1().ConfigMaps(namespace).Delete(ctx, "settings", metav1.DeleteOptions{})
}

func (c *cluster) createSecret(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: meta("login"), StringData: map[string]string{"user": "reader", "password": "correct horse"}}
	_, err := c.client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

func (c *cluster) changeSecret(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: meta("login"), StringData: map[string]string{"user": "reader", "password": "battery staple"}}
	_, err := c.client.CoreV1().Secrets(namespace).Update(ctx, secret, metav1.UpdateOptions{})
	return err
}

// gear returns a custom object, one of whose wheels has this many teeth.
func gear(teeth int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgets.GroupVersion().String(), "kind": "Widget",
		"metadata": map[string]any{"name": "gear"},
		"spec":     map[string]any{"wheels": []any{map[string]any{"name": "left", "teeth": int64(40)}, map[string]any{"name": "right", "teeth": teeth}}},
	}}
}

func (c *cluster) createWidget(ctx context.Context) error {
	_, err := c.dynamic.Resource(widgets).Namespace(namespace).Create(ctx, gear(12), metav1.CreateOptions{})
	return err
}

func (c *cluster) changeWidget(ctx context.Context) error {
	objects := c.dynamic.Resource(widgets).Namespace(namespace)
	current, err := objects.Get(ctx, "gear", metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := gear(13)
	changed.SetResourceVersion(current.GetResourceVersion()) // required for updates of custom resources
	_, err = objects.Update(ctx, changed, metav1.UpdateOptions{})
	return err
}

// podSpec is the spec of all pods here. Nobody runs them: there is no kubelet.
func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}}}
}

func (c *cluster) createPod(ctx context.Context) error {
	pod := &corev1.Pod{ObjectMeta: meta("lonely"), Spec: podSpec()}
	_, err := c.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

func (c *cluster) deletePod(ctx context.Context) error {
	return c.client.CoreV1().Pods(namespace).Delete(ctx, "lonely", metav1.DeleteOptions{})
}
