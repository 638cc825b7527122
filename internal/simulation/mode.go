package simulation

// Mode is a way to use the project.
type Mode string

// The modes. To add one, add a row to modes.
const (
	// Typed has informers of Go types, decoded from protobuf.
	Typed Mode = "typed"
	// Unstructured has informers of unstructured and metadata-only objects, decoded from JSON.
	Unstructured Mode = "unstructured"
	// Folded is Typed with a memory budget that is too small, so that objects are folded and opened again all the
	// time.
	Folded Mode = "folded"
	// Warm is Typed, or Folded, with a directory: restarted informers and processes begin with what was saved.
	Warm Mode = "warm"
	// Tracked is Typed, but processes do not report their writes: the transport of their client notes them.
	Tracked Mode = "tracked"
	// ClientGo has client-go informers on our engine; the controllers use our own API.
	ClientGo Mode = "clientgo"
)

// Modes are all modes; clientgo.go adds ClientGo.
var Modes = []Mode{Typed, Unstructured, Folded, Warm, Tracked}

// modeSetup is the implementation of a mode.
type modeSetup struct {
	open    func(*run) ([]view, error)
	process func(*run, string, *ledger) (*process, error)
}

// modes maps each mode to how it opens its views and starts a process.
var modes = map[Mode]modeSetup{
	Typed:        {openTyped, newTypedProcess},
	Unstructured: {openUnstructured, newUnstructuredProcess},
	Folded:       {openTyped, newTypedProcess},
	Warm:         {openTyped, newTypedProcess},
	Tracked:      {openTyped, newTrackedProcess},
}

func (m Mode) open(r *run) ([]view, error) { return modes[m].open(r) }

func (m Mode) process(r *run, id string, l *ledger) (*process, error) {
	return modes[m].process(r, id, l)
}
