package main

import (
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

// contextName is the name of the cluster and the context in every kubeconfig.
const contextName = "tidings"

const (
	adminUser = "admin"
	// adminGroup is the group to which RBAC always allows everything.
	adminGroup = "system:masters"
)

// newKubeconfig returns a self-contained kubeconfig for the server, with new credentials for the user.
func newKubeconfig(ca *authority, server, user string, groups []string) ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := ca.client(key, user, groups)
	if err != nil {
		return nil, err
	}
	encodedKey, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	config := api.NewConfig()
	config.Clusters[contextName] = &api.Cluster{Server: server, CertificateAuthorityData: encodeCert(ca.cert.Raw)}
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: cert, ClientKeyData: encodedKey}
	config.Contexts[contextName] = &api.Context{Cluster: contextName, AuthInfo: user}
	config.CurrentContext = contextName
	return clientcmd.Write(*config)
}

// userKubeconfig mints a user in a data folder that a control plane serves or has served. The user may only
// do what RBAC grants to the name and groups.
func userKubeconfig(l layout, user string, groups []string) ([]byte, error) {
	if l == "" {
		return nil, errors.New("no data folder: name the one of the control plane with --data-dir")
	}
	admin, err := clientcmd.LoadFromFile(l.adminKubeconfig())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no control plane has been ready in %s: start one there first, or correct --data-dir", string(l))
	}
	if err != nil {
		return nil, err
	}
	cluster := admin.Clusters[contextName]
	if cluster == nil {
		return nil, fmt.Errorf("%s names no cluster %q; start the control plane again, it rewrites the file", l.adminKubeconfig(), contextName)
	}
	ca, err := readAuthority(l)
	if err != nil {
		return nil, err
	}
	return newKubeconfig(ca, cluster.Server, user, groups)
}
