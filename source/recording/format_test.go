package recording_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

// sample is a recording with one entry of each kind.
func sample(t testing.TB) []byte {
	t.Helper()
	var file bytes.Buffer
	recorder, err := recording.NewRecorder(&file, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := recording.Record(recorder, source.ListerWatcher[*corev1.ConfigMap](script{}), source.Scope{Resource: configMaps, Namespace: "shop"})
	opts := source.ListOptions[*corev1.ConfigMap]{Skip: func(*source.ObjectError) {}}
	for range 2 {
		_, _ = src.List(t.Context(), opts, ignore)
		if stream, err := src.Watch(t.Context(), source.WatchOptions[*corev1.ConfigMap]{ResourceVersion: "7"}); err == nil {
			_, _ = stream.Next(nil)
			_, _ = stream.Next(nil)
			stream.Close()
		}
		opts.ResourceVersion = "fail"
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// script is a source that delivers something of every kind.
type script struct{}

var bad = &source.ObjectError{Key: object.Key{Namespace: "shop", Name: "bad"}, UID: "u", ResourceVersion: "3", Event: source.Modified, Err: errors.New("it is broken")}

func (script) List(_ context.Context, opts source.ListOptions[*corev1.ConfigMap], each func(*corev1.ConfigMap) error) (source.ListResult, error) {
	if opts.ResourceVersion == "fail" {
		return source.ListResult{}, apierrors.NewTooManyRequests("busy", 3)
	}
	opts.Skip(bad)
	return source.ListResult{ResourceVersion: "7", Continue: "more"}, each(configMap(1, 1))
}

func (script) Watch(context.Context, source.WatchOptions[*corev1.ConfigMap]) (source.Stream[*corev1.ConfigMap], error) {
	return &scriptStream{}, nil
}

type scriptStream struct{ asked int }

func (s *scriptStream) Next(buf []source.Event[*corev1.ConfigMap]) ([]source.Event[*corev1.ConfigMap], error) {
	if s.asked++; s.asked > 1 {
		return buf, io.EOF
	}
	return append(buf,
		source.Event[*corev1.ConfigMap]{Type: source.Modified, Object: configMap(1, 2), ResourceVersion: "8"},
		source.Event[*corev1.ConfigMap]{Type: source.Invalid, Err: bad, ResourceVersion: "9"},
		source.Event[*corev1.ConfigMap]{Type: source.Bookmark, ResourceVersion: "10", InitialEventsEnd: true},
	), nil
}

func (*scriptStream) Close() error { return nil }

// playAll plays an entire recording, and returns the errors.
func playAll(rec *recording.Recording) (objects int, errs []error) {
	for _, scope := range rec.Collections() {
		player, err := recording.Play[*corev1.ConfigMap](rec, scope, recording.PlayOptions{Speed: recording.AtOnce})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for range 1000 {
			opts := source.ListOptions[*corev1.ConfigMap]{Skip: func(*source.ObjectError) {}}
			_, err := player.List(context.Background(), opts, func(*corev1.ConfigMap) error { objects++; return nil })
			if errors.Is(err, recording.ErrPlayed) {
				break
			}
			errs = append(errs, err)
			n, err := watchAll(player)
			objects += n
			errs = append(errs, err)
		}
	}
	return objects, errs
}

func watchAll(player *recording.Player[*corev1.ConfigMap]) (objects int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := player.Watch(ctx, source.WatchOptions[*corev1.ConfigMap]{ResourceVersion: "7"})
	if apierrors.IsResourceExpired(err) || errors.Is(err, errors.ErrUnsupported) {
		stream, err = player.Watch(ctx, source.WatchOptions[*corev1.ConfigMap]{SendInitialEvents: true})
	}
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	select {
	case <-player.Done():
		return 0, nil // it is silent
	default:
	}
	for {
		events, err := stream.Next(nil)
		objects += len(events)
		if err != nil {
			return objects, err
		}
	}
}

func TestEverythingIsPlayed(t *testing.T) {
	data := sample(t)
	rec, err := recording.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	player, err := recording.Play[*corev1.ConfigMap](rec, rec.Collections()[0], recording.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var skipped *source.ObjectError
	opts := source.ListOptions[*corev1.ConfigMap]{Skip: func(e *source.ObjectError) { skipped = e }}
	result, err := player.List(t.Context(), opts, ignore)
	if err != nil || result != (source.ListResult{ResourceVersion: "7", Continue: "more"}) || skipped == nil || skipped.Key != bad.Key || skipped.ResourceVersion != "3" {
		t.Errorf("got %+v, %v, skipped %+v", result, err, skipped)
	}
	stream, err := player.Watch(t.Context(), source.WatchOptions[*corev1.ConfigMap]{ResourceVersion: "7"})
	if err != nil {
		t.Fatal(err)
	}
	events, err := stream.Next(nil)
	if err != nil || len(events) != 3 {
		t.Fatalf("got %v, %v", events, err)
	}
	if !reflect.DeepEqual(events[0].Object, configMap(1, 2)) || events[0].Type != source.Modified || !events[2].InitialEventsEnd || events[2].ResourceVersion != "10" {
		t.Errorf("got %+v", events)
	}
	if e, ok := errors.AsType[*source.ObjectError](events[1].Err); !ok || e.Event != source.Modified || e.UID != "u" {
		t.Errorf("got %+v", events[1].Err)
	}
	if _, err := stream.Next(nil); err != io.EOF {
		t.Errorf("the end is %v", err)
	}
	_, err = player.List(t.Context(), opts, ignore)
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds != 3 {
		t.Errorf("got %v, %d", err, seconds)
	}
}

// TestDamage flips bytes and truncates the file everywhere: there is an error that gives the place,
// or Incomplete says that the end is missing.
func TestDamage(t *testing.T) {
	data := sample(t)
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 0x04
		rec, err := recording.Read(bytes.NewReader(damaged), int64(len(damaged)))
		if _, ok := errors.AsType[*recording.FormatError](err); !ok && (err != nil || rec.Incomplete() == nil) {
			t.Errorf("byte %d of %q…: %v", i, damaged[max(0, i-20):i+1], err)
		}
		rec, err = recording.Read(bytes.NewReader(data[:i]), int64(i))
		if _, ok := errors.AsType[*recording.FormatError](err); !ok && (err != nil || rec.Incomplete() == nil) {
			t.Errorf("cut after %d bytes: %v", i, err)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"empty":      {"", "empty"},
		"text":       {"hello\n", "not a recording"},
		"no newline": {"hello", "not a recording"},
		"binary":     {strings.Repeat("\x00", 100_000), "not a recording"},
		"newer":      {"ffffffff {}\n", "not a recording"},
	} {
		_, err := recording.Read(strings.NewReader(test.data), int64(len(test.data)))
		if _, ok := errors.AsType[*recording.FormatError](err); !ok || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	data := sample(t)
	newer := recording.Sum(`{"t":0,"header":{"format":"tidings-recording","version":2}}`)
	if _, err := recording.Read(strings.NewReader(newer), int64(len(newer))); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a newer version: %v", err)
	}
	if _, err := recording.Read(bytes.NewReader(append(data, recording.Sum(`{"t":1}`)...)), int64(len(data))+17); err == nil {
		t.Error("more behind the end was not noticed")
	}
}

// TestErrorsKeepTheirKind: errors can be distinguished after playing in the same ways as before.
func TestErrorsKeepTheirKind(t *testing.T) {
	for _, want := range []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, io.ErrUnexpectedEOF, context.DeadlineExceeded, net.ErrClosed, errors.ErrUnsupported,
	} {
		got := recording.RoundTrip(&net.OpError{Op: "dial", Net: "tcp", Err: want})
		if !errors.Is(got, want) {
			t.Errorf("%v became %v", want, got)
		}
	}
	gone := recording.RoundTrip(apierrors.NewResourceExpired("too old"))
	if !apierrors.IsResourceExpired(gone) {
		t.Errorf("got %v", gone)
	}
	if e, ok := errors.AsType[*net.DNSError](recording.RoundTrip(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true})); !ok || !e.IsNotFound {
		t.Error("a missing host became another error")
	}
	kind := &source.KindError{Got: corev1.SchemeGroupVersion.WithKind("Pod"), Want: corev1.SchemeGroupVersion.WithKind("Node")}
	if e, ok := errors.AsType[*source.KindError](recording.RoundTrip(kind)); !ok || *e != *kind {
		t.Errorf("got %v", e)
	}
	if e, ok := errors.AsType[*source.ContentTypeError](recording.RoundTrip(&source.ContentTypeError{ContentType: "text/html"})); !ok || e.ContentType != "text/html" {
		t.Errorf("got %v", e)
	}
	if got := recording.RoundTrip(io.EOF); got != io.EOF {
		t.Errorf("got %v", got)
	}
	if status := apierrors.APIStatus(nil); !errors.As(recording.RoundTrip(apierrors.NewForbidden(configMaps.GroupResource(), "", nil)), &status) || status.Status().Reason != metav1.StatusReasonForbidden {
		t.Error("forbidden became another error")
	}
}

// FuzzRead: whatever a file holds, reading and playing it ends, without a panic.
func FuzzRead(f *testing.F) {
	data := sample(f)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte(recording.Sum(`{"t":0,"header":{"format":"tidings-recording","version":1}}`) + recording.Sum(`{"t":1,"collection":{}}`) +
		recording.Sum(`{"t":1,"c":1,"watch":{"of":1}}`) + recording.Sum(`{"t":-1,"c":1,"events":[{"type":"ADDED","object":null}]}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, file := range [][]byte{data, recording.Resum(data)} {
			rec, err := recording.Read(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				continue
			}
			_ = rec.Incomplete()
			playAll(rec)
		}
	})
}
