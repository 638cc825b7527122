package stories

import (
	"fmt"
	"slices"
)

// scene is something that happens.
type scene struct {
	name   string
	kinds  []kind             // that are recorded, besides the usual ones
	before func(*world) error // before the recording; may be nil
	play   func(*world) error
}

// scenes are all of them.
var scenes = []scene{
	{
		name:   "rollout",
		before: web3,
		play: func(w *world) error {
			if err := w.setImage("web", "nginx:1.28"); err != nil {
				return err
			}
			return w.rolledOut("web")
		},
	},
}

// web3 is a Deployment of three replicas with a readiness probe.
func web3(w *world) error {
	if err := w.deploy("web", 3, "nginx:1.27", probed); err != nil {
		return err
	}
	return w.rolledOut("web")
}

// named returns the scenes of these names; all if there are none.
func named(names []string) (found []scene, err error) {
	if len(names) == 0 {
		return scenes, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scene %q", name)
		}
		found = append(found, scenes[i])
	}
	return found, nil
}
