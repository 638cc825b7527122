package suites

// The pages and sentences that differences refer to.
const (
	migrating = "migrating.md"

	handlerPanics  = "a handler panics | the process ends | recovered, logged and reported to `tidings.Options.OnError`; the next call follows"
	identityIsKept = "a transform changes name, namespace, uid or resource version | kept | reverted, and logged"
	newestList     = "the first list of an informer or reflector | any state that the server has in its cache, in one piece (`resourceVersion=0`) | the newest state, in pages"
	listAndWatch   = "`ListAndWatch` of a reflector | returns when its watch ends | runs until its context ends"
)

// inCache are the differences of client-go's package cache.
func inCache(test, says, because string) Difference {
	return Difference{Suite: "client-go", Package: "tools/cache", Test: test, Page: migrating, Says: says, Because: because}
}

// Differences are the tests that fail because of a documented difference.
var Differences = []Difference{
	inCache("TestPanicPropagated", handlerPanics, "the panic of a handler ends Run"),
	inCache("TestEventPanics/simple", handlerPanics, "a message with client-go's text, logged at the line that panicked"),
	inCache("TestEventPanics/many", handlerPanics, "a message with client-go's text, logged with the logger of the handler's options"),

	inCache("TestTransformingInformer", identityIsKept, "the transform clears the resource version"),
	inCache("TestSharedInformerTransformer", identityIsKept, "the transform changes the name to upper case"),

	inCache("TestReflectorListAndWatch/UseWatchList_disabled", newestList, "the list asks for resource version 0"),
	inCache("TestReflectorResyncWithResourceVersion", newestList, "lists ask for resource version 0, and then for the last one"),
	inCache("TestReflectorExpiredExactResourceVersion", newestList, "lists ask for resource version 0, and then for the last one"),
	inCache("TestReflectorFullListIfExpired", newestList, "lists ask for resource version 0, and then for the last one"),
	inCache("TestReflectorFullListIfTooLarge", newestList, "lists ask for resource version 0, and then for the last one"),
	inCache("TestWatchList/the_reflector_uses_the_old_LIST/WATCH_semantics_if_the_UseWatchList_is_turned_off", newestList,
		"the list asks for resource version 0"),
	inCache("TestWatchList/returning_any_other_error_than_apierrors.NewInvalid_forces_fallback", newestList, "the list asks for resource version 0"),
	inCache("TestWatchList/the_reflector_can_fall_back_to_old_LIST/WATCH_semantics_when_a_server_doesn't_support_streaming", newestList,
		"the list asks for resource version 0"),

	inCache("TestWatchList/expiring_an_established_watcher_results_in_returning_an_error_from_the_reflector", listAndWatch,
		"ListAndWatch returns the error of a watch"),
}
