package intake

import "context"

// A program chooses the shard of an informer after its source has been made, so the shard selector reaches the
// source's requests by their context.

type shardKey struct{}

// WithShard returns a context whose lists and watches ask for a shard only. A server that does not know shards sends
// all objects.
func WithShard(ctx context.Context, selector string) context.Context {
	return context.WithValue(ctx, shardKey{}, selector)
}

// ShardOf returns the shard selector of a context; "" if it has none.
func ShardOf(ctx context.Context) string {
	selector, _ := ctx.Value(shardKey{}).(string)
	return selector
}
