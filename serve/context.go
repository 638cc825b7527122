package serve

import (
	"context"

	"github.com/tidings/tidings/serve/internal/callers"
)

// impersonatedKey marks a forwarded request that carries the replica's own credentials, and whom it acts as.
type impersonatedKey struct{}

func withImpersonated(ctx context.Context, c callers.Caller) context.Context {
	return context.WithValue(ctx, impersonatedKey{}, c)
}

// impersonatedOf returns the caller as whom the replica sends a forwarded request.
func impersonatedOf(ctx context.Context) (c callers.Caller, ok bool) {
	c, ok = ctx.Value(impersonatedKey{}).(callers.Caller)
	return c, ok
}

// uploadKey marks a forwarded request whose body is sent on while it comes.
type uploadKey struct{}

func withUpload(ctx context.Context, u *upload) context.Context {
	return context.WithValue(ctx, uploadKey{}, u)
}

// uploadOf returns the body of a forwarded request; nil if it is sent on as a whole.
func uploadOf(ctx context.Context) *upload {
	u, _ := ctx.Value(uploadKey{}).(*upload)
	return u
}

// patienceKey marks a forwarded request whose answer is waited for only while the API server can be reached.
type patienceKey struct{}

func withPatience(ctx context.Context, p *patience) context.Context {
	return context.WithValue(ctx, patienceKey{}, p)
}

// patienceOf returns the patience with a forwarded request; nil if that is endless.
func patienceOf(ctx context.Context) *patience {
	p, _ := ctx.Value(patienceKey{}).(*patience)
	return p
}
