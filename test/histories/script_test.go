package histories

import (
	"fmt"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// script is a history, step by step. It is all that is needed to play it again.
type script []step

// step is a list of actions that happen at once, without a pause between them. Files change first, in one go; the actions of proxies follow
// in order.
type step []action

// action is one thing that happens; one field is set.
type action struct {
	// the document is put into its file: in its old place, or at the end; it is removed from all other files
	Put      *document `json:"put,omitempty"`
	Copy     *document `json:"copy,omitempty"`     // as put, but other files keep theirs
	Drop     *document `json:"drop,omitempty"`     // the object goes from its file
	Mesh     *string   `json:"mesh,omitempty"`     // the text of the mesh configuration; empty: there is no file
	Networks *string   `json:"networks,omitempty"` // of the mesh networks
	// the control plane ends before the files change, and starts after that; its proxies come back with their resources
	Restart bool `json:"restart,omitempty"`
	// what befalls the API server while the cluster changes: cut, compacted, killed
	Outage string `json:"outage,omitempty"`
	// another client sets the health of a WorkloadEntry's application in the API server
	Condition *condition `json:"condition,omitempty"`
	// whether a Secret names the other cluster from now on: yes, no
	West       string    `json:"west,omitempty"`
	Instance   *instance `json:"instance,omitempty"`   // what serves a service changes in a registry
	Registries *string   `json:"registries,omitempty"` // which the registries file names from now on, comma separated
	// a proxy connects; if one of that name is connected, it leaves first, and the new one holds its resources
	Connect *proxy  `json:"connect,omitempty"`
	Leave   string  `json:"leave,omitempty"`  // the proxy of that name
	Report  *report `json:"report,omitempty"` // an agent says how the application beside it is
}

// document is an object in a file.
type document struct {
	File string `json:"file"`
	Key  string `json:"key"` // kind, namespace and name
	Text string `json:"text,omitempty"`
	West bool   `json:"west,omitempty"` // it is the other cluster's
}

// condition is what the condition Healthy in the status of a WorkloadEntry says from now on.
type condition struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Status    string `json:"status,omitempty"` // True, False, Unknown; empty: it is taken away
	Others    bool   `json:"others,omitempty"` // another condition comes before it
}

// proxy is the description that a proxy sends, and its protocol.
type proxy struct {
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	Namespace string            `json:"namespace"`
	Addresses string            `json:"addresses"`
	Labels    map[string]string `json:"labels,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Locality  string            `json:"locality,omitempty"` // region/zone
	SotW      bool              `json:"sotw,omitempty"`
	Account   string            `json:"account,omitempty"` // it comes by the secure address, with a certificate of this service account
	Forgets   bool              `json:"forgets,omitempty"` // it holds nothing when it comes
	Prompt    bool              `json:"prompt,omitempty"`  // it drops resources at once when nothing refers to them any more
}

// report is what an agent says of the application; empty: it is well.
type report struct {
	Proxy   string `json:"proxy"`
	Failure string `json:"failure,omitempty"`
}

func (s script) String() string {
	out, err := yaml.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func readScript(path string) (script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out script
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// shorten returns a part of the script that fails still, by leaving out ever smaller runs of actions, at most that many times.
func (s script) shorten(tries int, fails func(script) bool) script {
	for size := max(s.actions()/2, 1); ; size = max(size/2, 1) {
		shorter := false
		for from := 0; from < s.actions() && tries > 0; {
			tries--
			if less := s.without(from, size); fails(less) {
				s, shorter = less, true
			} else {
				from += size
			}
		}
		if tries <= 0 || size == 1 && !shorter {
			return s
		}
	}
}

func (s script) actions() (n int) {
	for _, st := range s {
		n += len(st)
	}
	return n
}

// without leaves out n actions, counted over all steps, and the steps that are empty then.
func (s script) without(from, n int) script {
	var out script
	at := 0
	for _, st := range s {
		var kept step
		for _, a := range st {
			if at < from || at >= from+n {
				kept = append(kept, a)
			}
			at++
		}
		if len(kept) > 0 {
			out = append(out, slices.Clip(kept))
		}
	}
	return out
}
