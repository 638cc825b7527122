package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

const (
	// binaryVariable is the environment variable with the path of a prebuilt control plane binary.
	binaryVariable = "TIDINGS_CONTROLPLANE"

	rootModule         = "github.com/tidings/tidings"
	controlPlaneModule = rootModule + "/controlplane"

	// binaryPrefix is the prefix of binaries in the cache.
	binaryPrefix = "controlplane-"
	// keepBinary is how long a binary stays in the cache after its last use.
	keepBinary = 14 * 24 * time.Hour
)

// controlPlaneBinary returns the path of a binary built from the current sources. It builds the binary if it is
// not in the cache.
func controlPlaneBinary(ctx context.Context, logger *slog.Logger) (string, error) {
	if path := os.Getenv(binaryVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("the program that %s names: %w; build it there, or unset the variable", binaryVariable, err)
		}
		return filepath.Abs(path)
	}
	source, err := controlPlaneSource(ctx)
	if err != nil {
		return "", err
	}
	cache, err := binaryCache()
	if err != nil {
		return "", fmt.Errorf("cache folder: %w; set %s to a ready program to do without", err, binaryVariable)
	}
	hash, err := sourceHash(ctx, source)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, binaryPrefix+hash+exeSuffix())
	if useBinary(path) {
		return path, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	// Another process may have built it while this one waited for the lock.
	if useBinary(path) {
		return path, nil
	}
	logger.InfoContext(ctx, "building the control plane; the first time takes minutes", "source", source, "binary", path)
	if err := build(ctx, logger, source, path); err != nil {
		return "", fmt.Errorf("building %s: %w", source, err)
	}
	return path, removeOld(cache, time.Now().Add(-keepBinary))
}

func binaryCache() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache := filepath.Join(user, "tidings")
	return cache, os.MkdirAll(cache, 0o755)
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// useBinary reports whether there is a binary at path, and updates its modification time to mark it as used.
func useBinary(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

// module is what the go command prints about a module.
type module struct {
	Version string
	Dir     string
	Error   string
}

// controlPlaneSource returns the folder of the control plane's module. In a checkout that is the one beside the
// tidings module; programs that depend on tidings get the module of the same version.
func controlPlaneSource(ctx context.Context) (string, error) {
	var root, own module
	const wayOut = "run inside a module that requires %s, or set %s to a ready program"
	if err := goJSON(ctx, &root, "list", "-mod=readonly", "-m", "-json", rootModule); err != nil {
		return "", fmt.Errorf("finding the sources: %w; "+wayOut, err, rootModule, binaryVariable)
	}
	beside := filepath.Join(root.Dir, "controlplane")
	if _, err := os.Stat(filepath.Join(beside, "go.mod")); root.Dir != "" && err == nil {
		return beside, nil
	}
	if root.Version == "" {
		return "", fmt.Errorf("no sources in %s; "+wayOut, beside, rootModule, binaryVariable)
	}
	if err := goJSON(ctx, &own, "mod", "download", "-json", controlPlaneModule+"@"+root.Version); err != nil {
		return "", fmt.Errorf("downloading the sources: %w %s; set %s to a ready program", err, own.Error, binaryVariable)
	}
	return own.Dir, nil
}

// goJSON runs the go command and decodes its output, even if the command fails.
func goJSON(ctx context.Context, into *module, args ...string) error {
	out, err := output(exec.CommandContext(ctx, "go", args...))
	if len(out) > 0 {
		err = errors.Join(err, json.Unmarshal(out, into))
	}
	return err
}

// sourceHash returns a hash of what a build depends on: the Go version, the system, and the module's own files,
// which determine all others.
func sourceHash(ctx context.Context, source string) (string, error) {
	toolchain, err := output(exec.CommandContext(ctx, "go", "env", "-C", source, "GOVERSION", "GOOS", "GOARCH"))
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", toolchain)
	err = filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !isSource(entry) {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(source, path)
		fmt.Fprintf(hash, "%s %d\n%s", filepath.ToSlash(name), len(data), data)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)[:12]), err
}

func isSource(entry fs.DirEntry) bool {
	name := entry.Name()
	if entry.IsDir() || strings.HasSuffix(name, "_test.go") {
		return false
	}
	return strings.HasSuffix(name, ".go") || name == "go.mod" || name == "go.sum"
}

// build builds the module in source and atomically puts the binary at path. The caller holds the lock.
func build(ctx context.Context, logger *slog.Logger, source, path string) error {
	stamp, err := versionFlags(ctx, source)
	if err != nil {
		return err
	}
	progress := &buildProgress{}
	ctx, cancel := progress.untilStalled(ctx)
	defer cancel()
	stop := progress.watch(ctx, logger)
	defer stop()
	if err := progress.count(ctx, source); err != nil {
		return err
	}
	// The go command does not overwrite the remains of a killed build.
	unfinished := path + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	cmd := goIn(ctx, source, "build", "-v", "-ldflags", stamp, "-o", unfinished, ".")
	cmd.Stderr = progress
	if err := cmd.Run(); err != nil {
		return progress.explain(ctx, err)
	}
	return os.Rename(unfinished, path)
}

// versionFlags sets the Kubernetes version that the server reports. Without them it reports a placeholder that
// clients cannot parse.
func versionFlags(ctx context.Context, source string) (string, error) {
	out, err := output(goIn(ctx, source, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"))
	if err != nil {
		return "", err
	}
	version := strings.TrimSpace(string(out))
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const variable = "-X k8s.io/component-base/version."
	return variable + "gitVersion=" + version + " " + variable + "gitMajor=" + major + " " + variable + "gitMinor=" + minor, nil
}

// goIn returns a go command that runs in another module, without settings meant for this one.
func goIn(ctx context.Context, folder string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PWD="+folder, "GOFLAGS=-mod=readonly", "GOWORK=off")
	return cmd
}

// lock acquires a lock between processes, or fails when ctx ends. Waiting for a file lock cannot be interrupted,
// so in that case its goroutine remains until it gets the lock, and then releases it.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	type result struct {
		unlock func()
		err    error
	}
	results := make(chan result)
	go func() {
		unlock, err := lockedfile.MutexAt(path).Lock()
		select {
		case results <- result{unlock, err}:
		case <-ctx.Done():
			if err == nil {
				unlock()
			}
		}
	}()
	select {
	case r := <-results:
		return r.unlock, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another process that builds the control plane: %w", context.Cause(ctx))
	}
}

// removeOld removes binaries that have not been used since the given time.
func removeOld(cache string, since time.Time) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !strings.HasPrefix(entry.Name(), binaryPrefix) || info.ModTime().After(since) {
			continue
		}
		if err := os.Remove(filepath.Join(cache, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
