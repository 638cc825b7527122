package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// layout is the path of a data folder, and names its files. Everything a restart needs is in it: the etcd
// data, the certificate authority and the service account key.
type layout string

func (l layout) lock() string            { return filepath.Join(string(l), "lock") }
func (l layout) etcd() string            { return filepath.Join(string(l), "etcd") }
func (l layout) etcdSocket() string      { return filepath.Join(string(l), "etcd.sock") }
func (l layout) adminKubeconfig() string { return filepath.Join(string(l), "admin.kubeconfig") }
func (l layout) caKey() string           { return filepath.Join(string(l), "pki", "ca.key") }
func (l layout) caCert() string          { return filepath.Join(string(l), "pki", "ca.crt") }
func (l layout) servingKey() string      { return filepath.Join(string(l), "pki", "apiserver.key") }
func (l layout) servingCert() string     { return filepath.Join(string(l), "pki", "apiserver.crt") }
func (l layout) serviceAccountKey() string {
	return filepath.Join(string(l), "pki", "service-account.key")
}

// openLayout prepares dir for exclusive use by this process. The lock belongs to the open file, so it is
// released however the process ends; release releases it earlier.
func openLayout(dir string) (l layout, release func() error, err error) {
	if dir == "" {
		return "", nil, errors.New("no data folder: name one with --data-dir, it keeps etcd's data and the certificates")
	}
	// The API server and etcd get absolute paths, which stay valid if the working directory changes.
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", nil, fmt.Errorf("data folder: %w", err)
	}
	l = layout(dir)
	for _, folder := range []string{dir, filepath.Dir(l.caKey()), l.etcd()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", nil, unusable(dir, err)
		}
	}
	lock, err := fileutil.TryLockFile(l.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return "", nil, fmt.Errorf("data folder %s is in use by another control plane: stop that one, or choose another --data-dir", dir)
	}
	if err != nil {
		return "", nil, unusable(dir, err)
	}
	return l, lock.Close, nil
}

func unusable(dir string, err error) error {
	return fmt.Errorf("data folder %s cannot be used: %w; choose one you may write to with --data-dir", dir, err)
}

// writeFile atomically replaces the content of path: a reader, or a start after a crash, finds the old
// content or the new, never a part. Only the owner may read it.
func writeFile(path string, data []byte) error {
	// CreateTemp creates files with mode 0600.
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
