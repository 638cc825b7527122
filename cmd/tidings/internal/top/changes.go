package top

import (
	"container/list"
	"slices"
)

// The limits of the last changes that are kept: of one object, and of all.
const (
	maxOfObject    = 16
	maxChanges     = 4096
	maxChangeBytes = 4 << 20
)

// names are an object's, its kind's, manager's and namespace's names, in the order of Groups.
type names [4]string

// of returns the name in a group.
func (n *names) of(g Group) string { return n[slices.Index(Groups, g)] }

// kept is a change that is kept, as text.
type kept struct {
	names names
	text  string
}

// changes keeps the last changes as text. What exceeds a limit drives out the oldest, of the same object first, so that a
// busy object does not drive out what the others did.
type changes struct {
	all      list.List                  // of *kept, the oldest first
	ofObject map[string][]*list.Element // the same by object
	bytes    int                        // of all texts
}

func (c *changes) add(k *kept) {
	object := k.names.of(ByObject)
	if mine := c.ofObject[object]; len(mine) == maxOfObject {
		c.drop(mine[0])
	}
	c.ofObject[object] = append(c.ofObject[object], c.all.PushBack(k))
	c.bytes += len(k.text)
	for c.all.Len() > maxChanges || c.bytes > maxChangeBytes {
		c.drop(c.all.Front())
	}
}

// drop removes a change, which is the oldest of its object.
func (c *changes) drop(e *list.Element) {
	k := c.all.Remove(e).(*kept)
	c.bytes -= len(k.text)
	object := k.names.of(ByObject)
	if mine := c.ofObject[object]; len(mine) > 1 {
		c.ofObject[object] = slices.Delete(mine, 0, 1)
	} else {
		delete(c.ofObject, object)
	}
}

// last returns the texts of the changes that count for a row, the newest first.
func (c *changes) last(g Group, name string) (texts []string) {
	for e := c.all.Back(); e != nil; e = e.Prev() {
		if k := e.Value.(*kept); k.names.of(g) == name {
			texts = append(texts, k.text)
		}
	}
	return texts
}
