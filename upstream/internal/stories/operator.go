package stories

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var backups = gvr("example.com", "backups")

// defineBackups creates a custom resource.
func defineBackups(w *world) error {
	return w.create("kubectl-create", gvr("apiextensions.k8s.io", "customresourcedefinitions"), `{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": {"name": "backups.example.com"},
		"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "backups", "kind": "Backup"},
			"versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
				"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`)
}

// operate is the life of a Backup: its operator runs a Job for it, refuses a schedule that somebody sets, and takes the
// next one.
func operate(w *world) error {
	if err := w.create("kubectl-create", backups, `{"apiVersion": "example.com/v1", "kind": "Backup",
		"metadata": {"name": "nightly"}, "spec": {"schedule": "0 2 * * *"}}`); err != nil {
		return err
	}
	if err := w.reconcile(1, "Running", "False", "JobRunning", "the job nightly runs"); err != nil {
		return err
	}
	if err := w.job("nightly", "backup:1", 1, w.ownedByBackup); err != nil {
		return err
	}
	if err := w.untilJob("nightly", batchv1.JobComplete); err != nil {
		return err
	}
	if err := w.reconcile(1, "Completed", "True", "JobComplete", "1.2 GB in s3://backups"); err != nil {
		return err
	}
	if err := w.schedule(2, "every night", "Failed", "False", "InvalidSchedule",
		"expected 5 fields, found 2: every night"); err != nil {
		return err
	}
	return w.schedule(3, "0 3 * * *", "Completed", "True", "JobComplete", "1.2 GB in s3://backups")
}

// schedule is somebody's edit of a Backup, and what the operator makes of it.
func (w *world) schedule(generation int, schedule, phase, ready, reason, message string) error {
	if err := pause(w.ctx, time.Second); err != nil {
		return err
	}
	if err := w.patch("kubectl-edit", backups, "nightly", fmt.Sprintf(`{"spec":{"schedule":%q}}`, schedule)); err != nil {
		return err
	}
	return w.reconcile(generation, phase, ready, reason, message)
}

// reconcile writes a Backup's status as an operator does.
func (w *world) reconcile(generation int, phase, ready, reason, message string) error {
	if err := pause(w.ctx, 100*time.Millisecond); err != nil {
		return err
	}
	return w.patch("backup-operator", backups, "nightly", fmt.Sprintf(`{"status": {"phase": %q,
		"observedGeneration": %d, "lastBackup": {"bytes": 1288490188}, "conditions": [{"type": "Ready", "status": %q,
			"reason": %q, "message": %q, "observedGeneration": %[2]d, "lastTransitionTime": %[6]q}]}}`,
		phase, generation, ready, reason, message, time.Now().UTC().Format(time.RFC3339)), "status")
}

// ownedByBackup makes the Backup the owner of its Job.
func (w *world) ownedByBackup(j *batchv1.Job) error {
	owner, err := w.dynamic.Resource(backups).Namespace(w.namespace).Get(w.ctx, "nightly", metav1.GetOptions{})
	if err != nil {
		return err
	}
	j.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, schema.GroupVersionKind{
		Group: "example.com", Version: "v1", Kind: "Backup"})}
	return nil
}
