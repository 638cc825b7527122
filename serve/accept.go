package serve

import (
	"regexp"
	"strings"

	"github.com/tidings/tidings/internal/protocol"
)

// maxClauses is the number of clauses from which an API server's order of equal ones is not that of the header.
const maxClauses = 12

var (
	// usual are the clauses of an Accept header that are understood here, as those of most clients are. No released API
	// server drops managed fields on request: they ignore that, and so do we.
	usual = regexp.MustCompile(`^application/(json|vnd\.kubernetes\.protobuf)` +
		`(;stream=watch|;as=PartialObjectMetadata(List)?;(g=meta\.k8s\.io;v=v1|v=v1;g=meta\.k8s\.io))?` +
		`(;drop=metadata\.managedFields)?$`)
	// noBetter are clauses that an API server does not prefer to usual ones, nor to what follows them.
	noBetter = regexp.MustCompile(`^[^;]*(; ?q=(0(\.[0-9]+)?|1(\.0+)?))?$`)
)

// anything is the clause of clients that take what comes.
const anything = "*/*"

// negotiate returns the encoding that an API server would choose, if that is sure and can be written here.
func negotiate(accept string, t *protocol.ResourceType, stream bool) (e protocol.Encoding, ok bool) {
	clauses := strings.Split(accept, ",")
	if len(clauses) > maxClauses {
		return e, false
	}
	for i, clause := range clauses {
		clause = strings.Trim(clause, " ")
		switch {
		case clause == anything && i < len(clauses)-1: // the server prefers the others
			return e, false
		case accept != "" && clause != anything && !usual.MatchString(clause):
			return e, false
		}
		e, err := protocol.Negotiate(clause, t, stream)
		if err != nil {
			continue
		}
		for _, later := range clauses[i+1:] {
			if later = strings.Trim(later, " "); !usual.MatchString(later) && !noBetter.MatchString(later) {
				return e, false
			}
		}
		return e, true
	}
	return e, false
}
