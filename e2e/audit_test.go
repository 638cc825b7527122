package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
)

// TestAuditWithLeastPrivilege: with no more than list and watch an informer syncs, follows, and is
// audited by the real server, which lists the exact versions that it is asked for; nothing differs,
// however much is written meanwhile.
func TestAuditWithLeastPrivilege(t *testing.T) {
	cp := plane(t)
	admin := clientFor(t, cp.Config())
	namespace := newNamespace(t, admin)
	const user = "least-privilege"
	_, err := admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"list", "watch"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	must(t, err)
	config, err := cp.User(user)
	must(t, err)
	f := newFront(t, config)

	factory := startFactory(t, &rest.Config{Host: f.URL}, tidings.Options{Audit: 200 * time.Millisecond, Backoff: quick})
	scope := tidings.Scope{Namespaces: []string{namespace}}
	settings, secrets := informer[*corev1.ConfigMap](t, factory, scope), informer[*corev1.Secret](t, factory, scope)
	waitForSync(t, factory)
	completed := func() uint64 {
		return min(settings.Status().Parts[0].Audit.Completed, secrets.Status().Parts[0].Audit.Completed)
	}
	for deadline, n := time.Now().Add(patience), 0; completed() < 3; n++ {
		if time.Now().After(deadline) {
			t.Fatalf("audits: %+v, %+v", settings.Status().Parts[0].Audit, secrets.Status().Parts[0].Audit)
		}
		writeSettings(t, admin, namespace, fmt.Sprint("a-", n%10))
		_, err = admin.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s-", n)}}, metav1.CreateOptions{})
		must(t, err)
	}
	for _, st := range factory.Status() {
		if got := st.Parts[0].Audit; got.Differences != 0 || got.Heals != 0 {
			t.Errorf("%s: %+v", st.Resource, got)
		}
		if st.NotFresh != nil {
			t.Error(st.NotFresh)
		}
	}
	want := []string{"list /configmaps", "list /secrets", "watch /configmaps", "watch /secrets"}
	for _, call := range slices.Sorted(maps.Keys(f.asked())) {
		if !slices.Contains(want, call) {
			t.Errorf("it asked for %q, which was not granted", call)
		}
	}
}
