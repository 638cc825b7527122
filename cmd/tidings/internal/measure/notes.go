package measure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

// summary answers the question for which the command was run.
func (r Report) summary() string {
	t := r.Total
	if t.Objects == 0 {
		return "There are no objects of these resources, so there is nothing to compare."
	}
	s := fmt.Sprintf("A client-go cache of %s holds about %s, Tidings about %s (%s)",
		theseObjects(t.Objects), size(t.ClientGo.CacheBytes), size(t.UnreadBytes), times(t.UnreadRatio))
	if t.UnreadBytes < t.Tidings.CacheBytes {
		s += fmt.Sprintf(" while nobody reads them,\n"+
			"and %s (%s) with all of them open: an object that is not read is folded after about a minute",
			size(t.Tidings.CacheBytes), times(t.Ratio))
	}
	s += "."
	if t.TidingsTrimmed != nil {
		before, after := t.ClientGoTrimmed.CacheBytes, t.TidingsTrimmed.CacheBytes
		s += fmt.Sprintf("\nWithout managedFields, all open, it is about %s and %s (%s).",
			size(before), size(after), times(ratio(after, before)))
	}
	return s
}

// summary says which budget to set.
func (f Folded) summary() string {
	return fmt.Sprintf("HEAP is measured with all of them folded, and includes the informers around them. "+
		"Caches of less than 4 MB stay open.\n"+
		"An Options.MemoryBudget of %s or more can be kept: more than that is open only if it is in use.", size(f.Budget))
}

func theseObjects(n int64) string {
	if n == 1 {
		return "this one object"
	}
	return fmt.Sprintf("these %d objects", n)
}

// notes says which figures are measured and which are not, and explains a disappointing ratio. left
// are the columns for which there was no room.
func (r Report) notes(left []string) string {
	s := ""
	if len(left) > 0 {
		s = "No room for " + strings.Join(left, ", ") + "; -o json has everything.\n"
	}
	if r.Total.Objects == 0 {
		return s
	}
	s += "Memory is measured: the live heap after decoding the same bytes and storing the objects.\n"
	if !slices.Contains(left, "SYNC") {
		s += "SYNC is estimated: the time to read the list once, and to decode it. Handlers, queues and buffers add to both.\n"
	}
	if r.Total.Extrapolated {
		s += "~ is extrapolated from the first objects of the list; with more objects, Tidings shares more.\n"
	}
	return s + r.gains() + r.explainRatio() + r.onDemand()
}

// littleSaved is the ratio from which on the report explains why Tidings saves little or nothing.
const littleSaved = 0.95

// explainRatio explains why little is saved: because there is little to save, or because the
// objects have little in common.
func (r Report) explainRatio() string {
	t := r.Total
	ours, theirs := t.UnreadBytes, t.ClientGo.CacheBytes
	switch {
	case t.UnreadRatio < littleSaved:
		return ""
	case ours > 2*theirs:
		each := (ours - theirs) / uint64(len(r.Resources))
		return fmt.Sprintf("There are too few objects to save anything: most of what Tidings takes is the fixed size of its decoders, about %s for each resource.\n", size(each)) +
			r.explainBreakEven()
	default:
		var bytes, shared uint64
		for _, result := range r.Resources {
			bytes, shared = bytes+result.Sharing.Bytes, shared+result.Sharing.SharedBytes
		}
		return fmt.Sprintf("Tidings saves nothing on these objects, because they have little in common: only %s of their bytes also occur in another object.\n", percent(shared, bytes))
	}
}

// gains says for each of several resources whether its informer would gain, and if not, why.
func (r Report) gains() string {
	var gain, lose []string
	for _, result := range r.Resources {
		name, why := cli.Printable(result.Resource), result.whyNoGain()
		switch {
		case result.Objects == 0:
		case why == "":
			gain = append(gain, name)
		default:
			lose = append(lose, name+" ("+why+")")
		}
	}
	if len(gain)+len(lose) < 2 {
		return ""
	}
	text := ""
	if len(gain) > 0 {
		text = "Informers that gain: " + strings.Join(gain, ", ") + ".\n"
	}
	if len(lose) > 0 {
		text += "No gain: " + strings.Join(lose, ", ") + ".\n"
	}
	return text
}

// whyNoGain says why an informer of the resource saves little or nothing, or "" if it saves.
func (r Result) whyNoGain() string {
	ours, theirs := r.unread(), r.ClientGo.CacheBytes
	switch {
	case float64(ours) < littleSaved*float64(theirs):
		return ""
	case ours > 2*theirs || r.Sharing.SharedBytes*4 > r.Sharing.Bytes:
		if n := breakEven(r.ClientGo.CacheBytes, r.Tidings.CacheBytes, r.Objects); n > r.Objects {
			return fmt.Sprintf("too few; from about %d on", n)
		}
		return "too few"
	default:
		return fmt.Sprintf("little in common: %s of the bytes", percent(r.Sharing.SharedBytes, r.Sharing.Bytes))
	}
}

// breakEven returns from how many objects on Tidings saves memory, if it saves the usual share of each; 0 if that is
// unknown.
func breakEven(theirs, ours uint64, objects int64) int64 {
	each := float64(theirs) / float64(max(objects, 1))
	fixed := float64(ours) - (1-typicalSaving)*float64(theirs)
	if each <= 0 || fixed <= 0 {
		return 0
	}
	return roundUp(int64(fixed / (typicalSaving * each)))
}

// typicalSaving is the share of client-go's cache that Tidings saves of objects that have much in
// common, as built-in ones do.
const typicalSaving = 0.5

// explainBreakEven says from how many objects on moving saves memory: when what is saved of each pays for the decoders.
func (r Report) explainBreakEven() string {
	n := breakEven(r.Total.ClientGo.CacheBytes, r.Total.Tidings.CacheBytes, r.Total.Objects)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Moving saves memory from about %d objects of this size on, if Tidings saves half of each, as usual for built-in types.\n", n)
}

// roundUp rounds an estimate up to two digits.
func roundUp(n int64) int64 {
	unit := int64(1)
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit - 1) / unit * unit
}
