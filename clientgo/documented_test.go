package clientgo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	upstreamcache "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo/cache"
)

// clause is one sentence of client-go's documentation, given by its first words, and what covers
// it: tests that run against both implementations, or the reason why there is nothing to test.
type clause struct {
	begins  string
	tests   []func(*testing.T)
	nothing reason
}

// reason says why a sentence needs no test.
type reason string

const (
	defines   reason = "it defines a word, or describes"
	noPromise reason = "it says what is not promised"
	advises   reason = "it advises the caller"
	alias     reason = "every queue is client-go's own: TestDataStructuresAreClientGos"
)

func by(begins string, tests ...func(*testing.T)) clause { return clause{begins: begins, tests: tests} }

func untested(begins string, why reason) clause { return clause{begins: begins, nothing: why} }

// contract has the sentences of the interfaces that an informer offers, by interface and method.
var contract = map[string][]clause{
	"SharedInformer": {
		by("SharedInformer provides eventually", TestConvergence),
		by("An object is identified", TestIdentity),
		by("One SharedInformer provides", TestUnexpectedTypeInWatch, TestUnexpectedKindInWatch),
		by("The linked object collection", TestFactoryNamespaceAndTransform, TestFactoryTweak),
		untested("The authoritative state of an object is", defines),
		untested("An object state is either", defines),
		by("A SharedInformer maintains", TestStoreReads, TestIndexerReads),
		by("This cache is eventually", TestConvergence),
		by("This means that, unless", TestConvergence),
		untested("To be formally complete", defines),
		by("For a given informer and relevant", TestConvergence),
		by("That is, some states", TestConvergence),
		untested("Note, however, that there is no promise", noPromise),
		by("The local cache starts out empty", TestEmptyBeforeRun),
		by("As a simple example", TestConvergence),
		by("As another simple example", TestConvergence, TestTombstone),
		by("The keys in the Store", TestStoreKeys),
		by("Clients can use `MetaNamespaceKeyFunc", TestStoreKeys),
		by("Every query against", TestOneSnapshot),
		by("Thus, the result of a `List`", TestOneSnapshot),
		untested("A client is identified here", defines),
		by("For every update to the SharedInformer's", TestHandlerAddedBeforeRun, TestConvergence),
		by("A client added after", TestHandlerAddedLate, TestConvergence),
		by("Client notifications happen after", TestNotifiedAfterStore),
		untested("It is possible that additional cache", noPromise),
		by("For a given SharedInformer and client, the", TestOneCallAtATime),
		by("For a given SharedInformer, client, and object ID", TestSlowHandler, TestConvergence),
		untested("Because `ObjectMeta.UID` has no role", noPromise),
		untested("namespace and name) X", noPromise),
		untested("Clients that need to detect", advises),
		untested("`OnUpdate` method of", advises),
		untested("A client must process each", advises),
		untested("Lengthy processing should", advises),
		by("A delete notification exposes", TestVersionOfDeletion, TestTombstone),
	},
	"SharedInformer.AddEventHandler": {
		by("AddEventHandler adds", TestResyncPeriods),
		by("Events to a single handler", TestOneCallAtATime, TestSlowHandler),
		by("It returns a registration handle", TestRemoveEventHandler, TestHasSynced),
		untested("Contextual logging", advises),
		untested("AddEventHandlerWithOptions together", advises),
	},
	"SharedInformer.AddEventHandlerWithResyncPeriod": {
		by("AddEventHandlerWithResyncPeriod adds", TestResyncPeriods),
		by("The resync operation consists", TestResyncAsksNobody, TestResyncPeriods),
		by("Some informers do no resyncs", TestResyncPeriods),
		by("For an informer that does resyncs", TestResyncPeriods),
		untested("The actual time between", noPromise),
		by("It returns a registration handle", TestRemoveEventHandler, TestStopped),
		untested("Contextual logging", advises),
		untested("AddEventHandlerWithOptions together", advises),
	},
	"SharedInformer.AddEventHandlerWithOptions": {
		by("AddEventHandlerWithOptions is a variant", TestResyncPeriods),
	},
	"SharedInformer.RemoveEventHandler": {
		by("RemoveEventHandler removes", TestRemoveEventHandler),
		by("This function is guaranteed", TestRemoveEventHandler, TestHandlersComeAndGo),
		untested("Note", defines),
		by("RemoveEventHandler is asynchronous", TestRemoveDoesNotWait),
		by("It stops queueing", TestRemoveDoesNotWait),
		by("Goroutines processing", TestRemoveDoesNotWait),
		by("If the caller needs to wait", TestShutDownEventHandler),
	},
	"SharedInformer.GetStore":      {by("GetStore returns", TestStoreReads)},
	"SharedInformer.GetController": {by("GetController is deprecated", TestIdleController)},
	"SharedInformer.Run": {
		by("Run starts and runs", TestRunReturns),
		by("The informer will be stopped", TestRunReturns),
		untested("Contextual logging", advises),
		untested("RunWithContext should be used", advises),
	},
	"SharedInformer.RunWithContext": {
		by("RunWithContext starts and runs", TestRunReturns),
		by("The informer will be stopped", TestRunReturns),
	},
	"SharedInformer.HasSynced": {
		by("HasSynced returns true", TestHasSynced, TestHasSyncedNeedsList, TestHasSyncedEmpty),
		untested("This is unrelated", defines),
		by("Note that this doesn't tell", TestHasSynced),
		by("For that, please call", TestHasSynced),
	},
	"SharedInformer.HasSyncedChecker": {
		by("HasSyncedChecker completes", TestHasSynced, TestHasSyncedNeedsList, TestHasSyncedEmpty),
		untested("This is unrelated", defines),
		by("Note that this doesn't tell", TestHasSynced),
		by("For that, please use", TestHasSynced),
	},
	"SharedInformer.LastSyncResourceVersion": {
		by("LastSyncResourceVersion is", TestLastSyncResourceVersion),
		untested("The value returned is not", noPromise),
	},
	"SharedInformer.SetWatchErrorHandler": {
		by("The WatchErrorHandler is called", TestWatchErrorHandler),
		by("After calling this handler", TestHasSyncedNeedsList),
		by("The default implementation", TestWatchErrorHandler),
		by("There's only one handler", TestWatchErrorHandler),
		untested("The handler is intended", advises),
		untested("pause the consumers", advises),
		untested("The handler should return", advises),
		untested("Contextual logging", advises),
		untested("SetWatchErrorHandlerWithContext should", advises),
	},
	"SharedInformer.SetWatchErrorHandlerWithContext": {
		by("SetWatchErrorHandlerWithContext is a variant", TestWatchErrorHandler),
	},
	"SharedInformer.SetShardSelector": {
		by("SetShardSelector configures", TestShardSelector),
		by("Must be set before", TestShardSelector),
	},
	"SharedInformer.SetTransform": {
		by("The TransformFunc is called", TestTransform),
		by("This function is intended", TestTransform),
		untested("One use case is", advises),
		by("Must be set before", TestWatchErrorHandler),
		untested("Please see the comment", advises),
	},
	"SharedInformer.IsStopped": {
		by("IsStopped reports", TestStopped),
		by("Adding event handlers to already", TestStopped),
		by("An informer already stopped", TestStopped),
	},
	"ResourceEventHandlerRegistration": {
		untested("Opaque interface", defines),
		by("Must be supplied back", TestForeignHandle),
		by("Also used to tell", TestHasSynced),
	},
	"ResourceEventHandlerRegistration.HasSynced":        {by("HasSynced reports", TestHasSynced, TestHandlerAddedLate)},
	"ResourceEventHandlerRegistration.HasSyncedChecker": {by("HasSyncedChecker reports", TestHasSynced, TestHandlerAddedLate)},
	"SharedIndexInformer":                               {by("SharedIndexInformer provides", TestAddIndexersLate, TestIndexerReads)},

	"Store": {
		untested("Store is a generic", defines),
		by("A Store holds a map", TestStoreChanges),
		by("A Store also knows", TestStoreChanges),
		by("In the simplest Store", TestStoreChanges),
		by("Reflector knows how", TestReflector),
		untested("This package provides", defines),
	},
	"Store.Add":                          {by("Add adds", TestStoreChanges)},
	"Store.Update":                       {by("Update updates", TestStoreChanges)},
	"Store.Delete":                       {by("Delete deletes", TestStoreChanges)},
	"Store.List":                         {by("List returns", TestStoreReads, TestStoreChanges)},
	"Store.ListKeys":                     {by("ListKeys returns", TestStoreReads, TestStoreKeys)},
	"Store.LastStoreSyncResourceVersion": {by("LastStoreSyncResourceVersion returns", TestStoreReads, TestStoreVersion), by("This is used to determine", TestStoreVersion)},
	"Store.Bookmark":                     {by("Bookmark observes", TestStoreVersion)},
	"Store.Get":                          {by("Get returns", TestStoreReads, TestStoreChanges)},
	"Store.GetByKey":                     {by("GetByKey returns", TestStoreReads, TestStoreChanges)},
	"Store.Replace":                      {by("Replace will delete", TestStoreChanges), untested("Store takes ownership", advises)},
	"Store.Resync":                       {by("Resync is meaningless", TestStoreKeys)},

	"Indexer": {
		by("Indexer extends Store", TestStoreChanges, TestIndexerReads),
		untested("There are three kinds", defines),
		untested("1", defines),
		untested("a storage key", defines),
		untested("a name of an index", defines),
		by("an \"indexed value\"", TestIndexerReads),
	},
	"Indexer.Index":               {by("Index returns", TestIndexerReads, TestOneSnapshot)},
	"Indexer.IndexKeys":           {by("IndexKeys returns", TestIndexerReads)},
	"Indexer.ListIndexFuncValues": {by("ListIndexFuncValues returns", TestIndexerReads)},
	"Indexer.ByIndex":             {by("ByIndex returns", TestIndexerReads)},
	"Indexer.GetIndexers":         {by("GetIndexers return", TestIndexerReads)},
	"Indexer.AddIndexers": {
		by("AddIndexers adds", TestAddIndexersLate, TestStoreFilledByHand),
		by("This supports adding", TestAddIndexersLate, TestStoreFilledByHand),
	},

	// The queues are client-go's. The reflector and the controller around them are ours.
	"Queue": {
		untested("Queue extends", alias),
		by("Every Add, Update, or Delete", TestReflectorIntoQueue),
		untested("A Queue has a way", alias),
		untested("A Queue can be accessed", alias),
		by("A Queue can be \"closed\"", TestQueueController),
	},
	"Queue.Pop": {
		untested("Pop blocks", alias),
		untested("In the latter case", alias),
		by("In the former case", TestReflectorIntoQueue),
		untested("Pop returns", alias),
		untested("The PopProcessFunc", alias),
		untested("It is expected", alias),
	},
	"Queue.HasSynced":        {by("HasSynced returns", TestReflectorIntoQueue, TestQueueController), untested("The first batch", alias)},
	"Queue.HasSyncedChecker": {by("HasSyncedChecker is done", TestQueueController), untested("The first batch", alias)},
	"Queue.Close":            {by("Close the queue", TestQueueController)},

	"Controller": {untested("Controller is a low-level", defines)},
	"Controller.RunWithContext": {
		by("RunWithContext does two things", TestQueueController),
		by("One is to construct", TestQueueController),
		by("The other is to repeatedly", TestQueueController),
		by("Both of these continue", TestQueueController, TestControllerBlocks),
		by("It's an error to call", TestControllerTwice),
		by("RunWithContext blocks", TestControllerBlocks),
	},
	"Controller.Run": {
		by("Run does the same", TestControllerBlocks),
		untested("Contextual logging", advises),
		untested("RunWithcontext should", advises),
	},
	"Controller.HasSynced":               {by("HasSynced delegates", TestQueueController, TestController)},
	"Controller.HasSyncedChecker":        {by("HasSyncedChecker enables", TestQueueController), by("The returned DoneChecker", TestController), by("It delegates", TestQueueController)},
	"Controller.LastSyncResourceVersion": {by("LastSyncResourceVersion delegates", TestQueueController)},
}

// documentedIn lists the client-go files that declare the interfaces.
var documentedIn = map[string][]string{
	"shared_informer.go": {"SharedInformer", "ResourceEventHandlerRegistration", "SharedIndexInformer"},
	"store.go":           {"Store"}, "index.go": {"Indexer"}, "fifo.go": {"Queue"}, "controller.go": {"Controller"},
}

// Every sentence of client-go's documentation is in the table, and everything in the table is in the documentation.
func TestEverySentence(t *testing.T) {
	dir := clientGoFolder(t, "tools/cache")
	if strings.Contains(dir, "/client-go@v0.36.") {
		t.Skip("the table follows the documentation of client-go 0.37")
	}
	documented := map[string]bool{}
	for name, types := range documentedIn {
		for of, doc := range docs(t, filepath.Join(dir, name), types) {
			documented[of] = true
			checkSentences(t, of, sentences(doc))
		}
	}
	documented["SharedInformer.SetShardSelector"] = true // since client-go 0.38
	for of := range contract {
		if !documented[of] {
			t.Errorf("%s is not documented", of)
		}
	}
}

// docs returns the comments of interfaces and of their methods.
func docs(t *testing.T, file string, types []string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	must(t, err)
	found := map[string]string{}
	for _, decl := range parsed.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		spec := general.Specs[0].(*ast.TypeSpec)
		if !slices.Contains(types, spec.Name.Name) {
			continue
		}
		found[spec.Name.Name] = general.Doc.Text()
		for _, method := range spec.Type.(*ast.InterfaceType).Methods.List {
			if method.Doc != nil {
				found[spec.Name.Name+"."+method.Names[0].Name] = method.Doc.Text()
			}
		}
	}
	return found
}

var endOfSentence = regexp.MustCompile(`[.!:]\s+|\n\s*\n`)

func sentences(doc string) []string {
	var all []string
	for _, s := range endOfSentence.Split(doc, -1) {
		if s = strings.Join(strings.Fields(s), " "); s != "" {
			all = append(all, s)
		}
	}
	return all
}

func checkSentences(t *testing.T, of string, sentences []string) {
	t.Helper()
	rows := contract[of]
	for i, s := range sentences {
		switch {
		case i >= len(rows) || !strings.HasPrefix(s, rows[i].begins):
			t.Errorf("%s: sentence %d is not in the table at its place: %s", of, i+1, s)
			return
		case len(rows[i].tests) == 0 && rows[i].nothing == "":
			t.Errorf("%s: sentence %d has no test: %s", of, i+1, s)
		}
	}
	for _, row := range rows[len(sentences):] {
		t.Errorf("%s: not in the documentation: %s", of, row.begins)
	}
}

// The data structures are client-go's own, so there is nothing to compare.
func TestDataStructuresAreClientGos(t *testing.T) {
	key, known := upstreamcache.MetaNamespaceKeyFunc, upstreamcache.NewStore(upstreamcache.MetaNamespaceKeyFunc)
	for name, pair := range map[string][2]any{
		"NewStore":           {cache.NewStore(key), upstreamcache.NewStore(key)},
		"NewIndexer":         {cache.NewIndexer(key, nil), upstreamcache.NewIndexer(key, nil)},
		"NewThreadSafeStore": {cache.NewThreadSafeStore(nil, nil), upstreamcache.NewThreadSafeStore(nil, nil)},
		"NewTTLStore":        {cache.NewTTLStore(key, 1), upstreamcache.NewTTLStore(key, 1)},
		"NewUndeltaStore":    {cache.NewUndeltaStore(nil, key), upstreamcache.NewUndeltaStore(nil, key)},
		"NewFIFO":            {cache.NewFIFO(key), upstreamcache.NewFIFO(key)},
		"NewDeltaFIFOWithOptions": {
			cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{}), upstreamcache.NewDeltaFIFOWithOptions(upstreamcache.DeltaFIFOOptions{}),
		},
		"NewRealFIFOWithOptions": {
			cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{KnownObjects: known}), upstreamcache.NewRealFIFOWithOptions(upstreamcache.RealFIFOOptions{KnownObjects: known}),
		},
		"NewHeap": {cache.NewHeap(key, nil), upstreamcache.NewHeap(key, nil)},
	} {
		if got, want := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1]); got != want {
			t.Errorf("%s returns a %v, want client-go's %v", name, got, want)
		}
	}
}
