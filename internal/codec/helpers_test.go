package codec_test

import "github.com/tidings/tidings/internal/wire/wiretest"

// Widget is a custom resource with a Go type.
type Widget = wiretest.Widget

var pod, widget = wiretest.SmallPod, wiretest.SmallWidget
