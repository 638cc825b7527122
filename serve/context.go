package serve

import "context"

// ownKey marks a forwarded request that carries the replica's own credentials.
type ownKey struct{}

func withOwn(ctx context.Context) context.Context { return context.WithValue(ctx, ownKey{}, true) }

func isOwn(ctx context.Context) bool { return ctx.Value(ownKey{}) != nil }
