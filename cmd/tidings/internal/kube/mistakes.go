package kube

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"unicode/utf8"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubeconfigv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// whyUnreadable says what is wrong with the first of the files that client-go cannot load, where
// its error speaks of Go types. It returns nil if client-go's error is clear.
func whyUnreadable(rules *clientcmd.ClientConfigLoadingRules) error {
	for _, file := range rules.GetLoadingPrecedence() {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if err := mistakeIn(data); err != nil {
			return fmt.Errorf("%s %w", file, err)
		}
	}
	return nil
}

var errSomethingElse = errors.New(`is not a kubeconfig, whose kind is "Config"; set --kubeconfig or $KUBECONFIG to one`)

// mistakeIn returns an error that continues the name of the file with this content.
func mistakeIn(data []byte) error {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return errSomethingElse
	}
	encoded, err := yaml.YAMLToJSON(data)
	if err != nil || bytes.Equal(encoded, []byte("null")) {
		return nil
	}
	var header struct{ Kind, APIVersion any }
	switch err := json.Unmarshal(encoded, &header); {
	case err != nil, header.Kind != nil && header.Kind != "Config":
		return errSomethingElse
	case header.APIVersion != nil && header.APIVersion != "" && header.APIVersion != "v1":
		return fmt.Errorf("is a kubeconfig with the apiVersion %q; only v1 is known", fmt.Sprint(header.APIVersion))
	}
	return badField(json.Unmarshal(encoded, &kubeconfigv1.Config{}))
}

// badField describes the error of decoding a kubeconfig.
func badField(err error) error {
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return errors.New("has a field that is not encoded in base64, as those must be whose names end in -data")
	}
	bad, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return nil
	case bad.Type.Kind() == reflect.String:
		return fmt.Errorf("has a %s where %s must be a string; put it in quotes", bad.Value, bad.Field)
	default:
		return fmt.Errorf("has a %s as %s, which must be something else", bad.Value, bad.Field)
	}
}

// checkConfig reports what would make every request fail.
func checkConfig(config *rest.Config) error {
	if err := checkServer(config.Host); err != nil {
		return fmt.Errorf("the server %w", err)
	}
	if err := checkPlugin(config); err != nil {
		return err
	}
	_, err := rest.TransportFor(config)
	return err
}

// checkPlugin checks that the credential plugin is there, if one is needed.
func checkPlugin(config *rest.Config) error {
	plugin := config.ExecProvider
	if plugin == nil || config.BearerToken != "" || config.Username != "" {
		return nil
	}
	if _, err := exec.LookPath(plugin.Command); err == nil {
		return nil
	}
	hint := strings.Join(strings.Fields(plugin.InstallHint), " ")
	if hint == "" {
		hint = "install it, or add its folder to $PATH"
	}
	return fmt.Errorf("the credential plugin %q is not installed; %s", plugin.Command, hint)
}
