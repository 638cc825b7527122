// Package controller runs reconcile loops: it turns changes of cached objects into keys, and calls a function for
// each key until the actual state matches the desired one. A whole controller, which labels each ConfigMap with the
// number of its entries:
//
//	func run(ctx context.Context, config *rest.Config) error {
//		op, err := operator.New(config, operator.Options{})
//		if err != nil {
//			return err
//		}
//		maps, err := tidings.Informer[*corev1.ConfigMap](op.Factory, tidings.Scope{})
//		if err != nil {
//			return err
//		}
//		writes, err := client.New[*corev1.ConfigMap](op.Config, corev1.SchemeGroupVersion.WithResource("configmaps"))
//		if err != nil {
//			return err
//		}
//		reconcile := func(ctx context.Context, key tidings.Key) (controller.Result, error) {
//			cached, ok := maps.Get(key)
//			if !ok {
//				return controller.Result{}, nil // it was deleted
//			}
//			want := fmt.Sprint(len(cached.Data))
//			if cached.Labels["entries"] == want {
//				return controller.Result{}, nil
//			}
//			m := cached.DeepCopy() // objects in a cache are read-only
//			m.Labels = map[string]string{"entries": want}
//			_, err := writes.Update(ctx, m) // not reconciled again before the cache has seen this
//			return controller.Result{}, err // an error is logged, and the key retried
//		}
//		c := controller.New("entries", reconcile, controller.Options{})
//		if err := errors.Join(controller.WatchKeys(c, maps), op.Manager.Add(c)); err != nil {
//			return err
//		}
//		return op.Run(ctx)
//	}
//
// In controller-runtime's terms: [New] is builder.NewControllerManagedBy, [WatchKeys] is For, [Watch] with [Owner]
// is Owns, [Watch] is Watches, [Use] has no counterpart, [Manager] is manager.Manager, and [Reconciler] is
// reconcile.Func with a key instead of a Request. [TrackWrites] is what its read-your-writes is for. The program's
// other packages: operator puts the parts together, client writes.
//
// What happens to a change:
//
//	caches ──deltas──► predicates ──► mapper ──► queue ──► gate ──► reconcile ──► result
//	                                               ▲        │            │          │
//	                                               │        │ own writes │ Wrote    │ error: backs off
//	                                               ├────────┘ not seen   ▼ Deleted  │ RequeueAfter: later
//	                                               └────────────────────────────────┘
//
// [WatchKeys] enqueues the keys of changed objects directly, without predicates and mapper.
//
// Guarantees:
//
//  1. A key is reconciled by one worker at a time, and at least once after its last change.
//  2. Nothing is reconciled before all caches that the controller uses are in sync.
//  3. Read your writes: a key is not reconciled while a cache lacks a write that an earlier
//     reconcile of the key made through a transport of [TrackWrites], or reported with [Wrote] or
//     [Deleted]. This never delays a key longer than [Options].MaxGateWait, nor for a write that a
//     restored server has lost, once the cache shows that, or three look-ups from five seconds on
//     do. It only covers writes of this process: after a change of leader, the last writes of the
//     previous one may be missing.
//  4. Changes take precedence over mere rechecks: the initial list and resyncs have low
//     priority, and keep it on retries and with RequeueAfter. Namespaces take turns.
//  5. A failed key is retried with increasing delays; after a [Terminal] error it is not, until
//     something changes. How long a key waits depends only on its own failures. The context of a
//     reconcile that takes too long is canceled, with a cause that says so.
//  6. A panic in a user's function ends neither the process nor the work on a key. In a reconcile it counts as an
//     error; a [Mapper] is called again with the same state of the object, and a [Predicate] that panics lets
//     the change pass. These panics are counted in [Stats] and logged; those of the log handler are dropped.
//  7. Run returns when all workers and mappers have returned, or reports which of them have not.
//  8. One leader: with a [LeaseElector] the work of two processes never overlaps, provided that a process exits when
//     its Run has returned. The lease is renewed until all work has ended.
//  9. One owner: with a shards.Replica in its place, all processes work, and a key is reconciled by one of them at a time:
//     see docs/shards.md.
//
// A [Manager] runs several controllers together, with an [Elector] if only one process may be active.
package controller
