package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	namespace = "demo"
	// pods is the number of pods.
	pods = 200
	// reader is a service account, and its role.
	reader = "pod-reader"
)

// cluster is the control plane, seen by its administrator.
type cluster struct {
	client kubernetes.Interface
	token  string // of the reader
}

// newCluster creates the pods, and somebody who may read them.
func newCluster(ctx context.Context, admin *rest.Config) (*cluster, error) {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	c := &cluster{client: client}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	for i := range pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: podName(i), Labels: map[string]string{"round": "0"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}}},
		}
		if _, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	c.token, err = c.newReader(ctx)
	return c, err
}

func podName(i int) string { return fmt.Sprintf("pod-%03d", i) }

// newReader creates a service account that may read pods, and returns a token of it.
func (c *cluster) newReader(ctx context.Context) (string, error) {
	meta := metav1.ObjectMeta{Name: reader}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"},
	}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: reader}},
	}
	accounts := c.client.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if _, err := c.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	token, err := accounts.CreateToken(ctx, reader, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// change sets the label of some pods, deletes one and creates one. Rounds count from 1.
func (c *cluster) change(ctx context.Context, round int) error {
	for i := range pods / 4 {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, round)
		name := podName(round*pods/8 + i)
		_, err := c.client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	return c.client.CoreV1().Pods(namespace).Delete(ctx, podName(round), now)
}

// versions returns the version of each pod, by name, as the API server lists them.
func (c *cluster) versions(ctx context.Context) (map[string]string, error) {
	list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, pod := range list.Items {
		versions[pod.Name] = pod.ResourceVersion
	}
	return versions, nil
}
