// Package page holds the types of the debug pages, which the control plane writes and pilotctl reads. It must not know how they do that.
package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/xdstype"
)

// ProxySync is one proxy's line of /debug/syncz, with Istio's field names: for each type the nonce last sent and the one last acknowledged.
// They are equal when the proxy has everything.
type ProxySync struct {
	ProxyID      string    `json:"node"`               // the node id; "proxy" has its <pod>.<namespace>, as in Istio
	Identity     string    `json:"identity,omitempty"` // what the proxy proved, namespace/service account; empty: nothing, in plaintext
	ProxyType    string    `json:"proxy_type,omitempty"`
	ClusterID    string    `json:"cluster_id,omitempty"`
	IstioVersion string    `json:"istio_version,omitempty"`
	ConnectedAt  time.Time `json:"connected_at"`
	Synced       bool      `json:"synced"`             // it has everything, and this was compared with the tables
	Compared     bool      `json:"compared"`           // with the tables, since the last request or response
	Diverged     int       `json:"diverged,omitempty"` // differences that audits found on this stream, and had sent again

	// Nonces are those of each type; in JSON they are the fields cluster_sent, cluster_acked and so on.
	Nonces [xdstype.Types]Nonces `json:"-"`

	// Behind is what it lacks of the last turn, by type and state; none: it has acknowledged everything, or refuses it.
	Behind []ProxyLag `json:"behind,omitempty"`

	// Warming is what it has acknowledged and does not use yet; nil: its agent does not report it.
	Warming *Warming `json:"warming,omitempty"`

	// Rejected is for each type ("cds", …) the proxy's last refusal, in Envoy's words; empty: it refuses nothing.
	Rejected map[string]string `json:"rejected,omitempty"`
}

// Nonces are the nonces of a type that a proxy was last sent and that it last acknowledged; empty: none.
type Nonces struct{ Sent, Acked string }

// Warming is how many listeners and clusters a proxy has acknowledged that are still warming.
type Warming struct {
	Listeners int        `json:"listeners"`
	Clusters  int        `json:"clusters"`
	Unknown   bool       `json:"unknown,omitempty"` // it may be some: its agent has not asked it since its last acknowledgement
	Since     *time.Time `json:"since,omitempty"`
}

// ProxyLag is what a proxy lacks of a type.
type ProxyLag struct {
	Type      string     `json:"type"`
	State     string     `json:"state"` // not sent, not acknowledged, refused
	Resources int        `json:"resources"`
	Turns     uint64     `json:"turns,omitempty"` // that it is behind; 0: it has just asked, and has no version at all
	Since     *time.Time `json:"since,omitempty"`
}

// line is a ProxySync without its methods.
type line ProxySync

// MarshalJSON writes the nonces of the types on the page as fields among the others.
func (p ProxySync) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(struct {
		Name string `json:"proxy"`
		line
	}{ShortName(p.ProxyID), line(p)})
	if err != nil {
		return nil, err
	}
	for t, n := range p.Nonces {
		name := xdstype.Type(t).Status()
		if name == "" {
			continue
		}
		for _, field := range [][2]string{{name + "_sent", n.Sent}, {name + "_acked", n.Acked}} {
			if field[1] == "" {
				continue
			}
			value, err := json.Marshal(field[1])
			if err != nil {
				return nil, err
			}
			text = fmt.Appendf(text[:len(text)-1], ",%q:%s}", field[0], value)
		}
	}
	return text, nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *ProxySync) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, (*line)(p)); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	if p.ProxyID == "" && fields["proxy"] != nil { // of a control plane that has no "node"
		if err := json.Unmarshal(fields["proxy"], &p.ProxyID); err != nil {
			return fmt.Errorf("proxy: %w", err)
		}
	}
	for t := range p.Nonces {
		name := xdstype.Type(t).Status()
		if name == "" {
			continue
		}
		n := &p.Nonces[t]
		for _, f := range []struct {
			name string
			to   *string
		}{{name + "_sent", &n.Sent}, {name + "_acked", &n.Acked}} {
			if raw, ok := fields[f.name]; ok {
				if err := json.Unmarshal(raw, f.to); err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
			}
		}
	}
	return nil
}

// ProxyCertificate is the credential of one connected proxy at the beginning of its youngest stream, of /debug/certz.
type ProxyCertificate struct {
	ProxyID     string       `json:"proxy"`           // the node id
	Namespace   string       `json:"-"`               // of the proxy
	By          string       `json:"authenticatedBy"` // "certificate", "token", or "nothing": plaintext
	Identity    string       `json:"identity,omitempty"`
	Certificate *Certificate `json:"certificate,omitempty"` // nil: it showed none
}

// Certificate holds the public fields of a certificate.
type Certificate struct {
	Serial    string    `json:"serialNumber"` // hexadecimal
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	Issuer    string    `json:"issuer"`
	Valid     bool      `json:"valid"` // by the control plane's clock, now
}

// WorkloadHealth is one agent's report about the application beside it, of /debug/workloadz.
type WorkloadHealth struct {
	ProxyID  string `json:"proxy"`              // the node id
	Identity string `json:"identity,omitempty"` // what the proxy proved, namespace/service account
	Healthy  bool   `json:"healthy"`
	Detail   string `json:"detail,omitempty"`
	// Entries are the WorkloadEntries that the report counts for, namespace/name; none: no entry has the proxy's address, namespace and
	// service account.
	Entries []string `json:"workloadEntries"`
}

// ServiceInfo is one service of /debug/registryz. The fields that Istio's page has too have its names and forms.
type ServiceInfo struct {
	Attributes     Attributes `json:"Attributes"`
	VIPs           VIPs       `json:"clusterVIPs"`
	DefaultAddress string     `json:"defaultAddress,omitempty"`
	CreationTime   *time.Time `json:"creationTime,omitempty"`

	Hostname   mesh.Host      `json:"hostname"`
	Namespace  string         `json:"namespace"`
	Registry   string         `json:"registry"`
	Addresses  []string       `json:"addresses,omitempty"`
	AutoVIP    string         `json:"autoAllocatedAddress,omitempty"`
	Ports      []PortInfo     `json:"ports"`
	Resolution string         `json:"resolution"`
	External   bool           `json:"meshExternal"`
	ExportTo   []string       `json:"exportTo"`
	Won        bool           `json:"won"` // false: another registry's or namespace's service of this name is used
	Object     mesh.ObjectRef `json:"object"`
}

// Attributes are what Istio's page says of a service's object.
type Attributes struct {
	ServiceRegistry string              // Kubernetes; External: an object declares the service; else the name of the registry
	Name, Namespace string              // of the object
	ExportTo        map[string]struct{} `json:",omitempty"`
	LabelSelectors  map[string]string   `json:",omitempty"`
}

// VIPs are the addresses of a service by cluster.
type VIPs struct {
	Addresses map[string][]string `json:",omitempty"`
}

// PortInfo is a service's port.
type PortInfo struct {
	Name     string `json:"name"`
	Port     uint32 `json:"port"`
	Protocol string `json:"protocol"`
	Target   uint32 `json:"targetPort,omitempty"`
}

// ServiceEndpoints is one service of /debug/endpointz.
type ServiceEndpoints struct {
	Service   string         `json:"svc"`
	Endpoints []EndpointInfo `json:"ep"`
}

// EndpointInfo is one endpoint.
type EndpointInfo struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	Ports    string `json:"ports,omitempty"`
	Labels   string `json:"labels,omitempty"`
	Locality string `json:"locality,omitempty"`
	Network  string `json:"network,omitempty"`
	Weight   uint32 `json:"weight,omitempty"`
	Health   string `json:"health"`
	Identity string `json:"serviceAccount,omitempty"`
}

// HostInfo is a host in one namespace's view, of /debug/servicez, with each registry's version of it.
type HostInfo struct {
	Hostname  mesh.Host  `json:"hostname"`
	Namespace string     `json:"namespace"`
	Ports     []PortInfo `json:"ports"` // that clients use
	// Parts are the registries' versions of the host, in order of precedence.
	Parts []HostPart `json:"parts"`
}

// HostPart is one registry's version of a host.
type HostPart struct {
	Registry string         `json:"registry"`
	Name     string         `json:"name,omitempty"`   // the registry's own
	Object   mesh.ObjectRef `json:"object,omitzero"`  // that declares it
	State    string         `json:"state,omitempty"`  // of the source: synced, stale, …
	Since    *time.Time     `json:"since,omitempty"`  // of the state
	Detail   string         `json:"detail,omitempty"` // why it is not up to date
	// Changed is when the registry last changed the service; for a source that hands over many at once, when it last changed any of them.
	Changed   *time.Time     `json:"changed,omitempty"`
	Used      bool           `json:"used"` // false: another registry's part is used, and not these endpoints
	Ports     []PortInfo     `json:"ports"`
	Endpoints []EndpointInfo `json:"endpoints"`
}

// ObjectInfo is one object of /debug/configz.
type ObjectInfo struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Spec      any    `json:"spec"`
	// Lines are those of the fields that the request names, by field. A field that is not written has the line of the nearest one around
	// it.
	Lines map[string]int `json:"lines,omitempty"`
}

// TableInfo is one table of /debug/tablez.
type TableInfo struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Rows       int    `json:"rows"`
	Edges      int    `json:"edges"`
	Recomputed uint64 `json:"recomputed"`
}

// Table holds the rows of one table, of /debug/tablez?table=…&format=json.
type Table struct {
	Name   string     `json:"table"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
}

// ProblemInfo is one problem of /debug/problems.
type ProblemInfo struct {
	Severity  string `json:"severity"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Field     string `json:"field,omitempty"`
	Code      string `json:"code"`
	Message   string `json:"message"`
	Fix       string `json:"fix,omitempty"`
}

// Reaches is a part of /debug/appliesz: Next is the value of ?after= for the part that follows; empty: this is the last one.
type Reaches struct {
	Objects []ObjectReach `json:"objects"`
	Next    string        `json:"next,omitempty"`
}

// ObjectReach is one object of /debug/appliesz, with its effect.
type ObjectReach struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	// Proxies is how many connected proxies would have another configuration without it; Some are the first of these.
	Proxies int      `json:"proxies"`
	Some    []string `json:"some,omitempty"`
	// Why lists possible reasons why no proxy is affected.
	Why []string `json:"why,omitempty"`
}

// ProblemOf converts a problem to the page's form.
func ProblemOf(problem mesh.Problem) ProblemInfo {
	o := problem.Object
	return ProblemInfo{
		Severity:  problem.Severity.String(),
		Kind:      o.Kind,
		Namespace: o.Namespace,
		Name:      o.Name,
		File:      o.File,
		Line:      cmp.Or(problem.Line, o.Line),
		Field:     problem.Field,
		Code:      problem.Code,
		Message:   problem.Message,
		Fix:       problem.Fix,
	}
}

// NameInfo is one name that a proxy's agent resolves, of /debug/ndsz.
type NameInfo struct {
	Host      string   `json:"host"`
	Addresses []string `json:"addresses"`
	Resource  string   `json:"resource"` // that it came in
	Version   string   `json:"version"`
}

// Resource is one resource that a proxy was sent, of /debug/resourcez: the message as JSON.
type Resource struct {
	Name    string          `json:"name"`
	Type    string          `json:"type"`
	Version string          `json:"version"`
	Body    json.RawMessage `json:"body"`
	// Made has the objects that it was made from, if the request asks for them: by its name, or by the names of its virtual hosts.
	Made map[string][]string `json:"made,omitempty"`
}

// PlanRequest is a change that /debug/planz is asked about.
type PlanRequest struct {
	Namespace string         `json:"namespace,omitempty"` // of objects that name none; empty: the caller's, or default
	Source    string         `json:"source,omitempty"`    // where they come from; empty: where they are, or the first source
	Documents []PlanDocument `json:"documents,omitempty"`
	Gone      []PlanKey      `json:"gone,omitempty"` // objects to remove
}

// PlanDocument is a part of a file.
type PlanDocument struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // where it begins in the file, from 1
	Text string `json:"text"`
}

// PlanKey names an object.
type PlanKey struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Version is the version of a control plane.
type Version struct {
	Version string `json:"version"`
}

// RemoteCluster is a cluster that a control plane reads.
type RemoteCluster struct {
	ID         string `json:"id"`
	SecretName string `json:"secretName"` // namespace/name of the Secret with its kubeconfig
	SyncStatus string `json:"syncStatus"`
	IstiodID   string `json:"istiodID"` // the control plane that reads it
	// AsOf is when the data of another cluster was last known to be current, and AgeSeconds is how long ago that is.
	AsOf       *time.Time `json:"asOf,omitempty"`
	AgeSeconds int        `json:"ageSeconds,omitempty"`
	Kept       string     `json:"kept,omitempty"` // whether it is kept on disk, or why not
}

// Turn is one turn of the tables, of /debug/historyz.
type Turn struct {
	Number uint64    `json:"turn"`
	At     time.Time `json:"at"`              // when it began
	Millis float64   `json:"ms"`              // until its resources were handed to streams
	Start  bool      `json:"start,omitempty"` // the first turn of the control plane's process

	Objects     []TurnObject `json:"objects,omitempty"` // that it set or removed, the first of them
	ObjectCount int          `json:"objectCount,omitempty"`
	Inputs      []string     `json:"inputs,omitempty"` // the first rows that came in, as "table key"
	Staged      int          `json:"staged"`           // rows that came in

	Rows      int         `json:"rows"`                // that were computed
	TotalRows int         `json:"totalRows,omitempty"` // that there are; 0: the turn computed so few that nobody counted
	Changed   int         `json:"changed"`             // rows that became different
	Full      bool        `json:"full"`                // most rows were computed: the first turn, or a setting that most rows read
	Tables    []TurnTable `json:"tables,omitempty"`

	Resources     []TurnResources `json:"resources,omitempty"` // that became different, by type
	ResourceCount int             `json:"resourceCount"`

	Proxies        int     `json:"proxies"`               // that were sent something of it because of the change
	MoreProxies    bool    `json:"moreProxies,omitempty"` // more than these: they are no longer counted
	Responses      int     `json:"responses"`
	Bytes          int     `json:"bytes"`
	Acks           int     `json:"acks"`
	FirstAckMillis float64 `json:"firstAckMs,omitempty"` // from the publication
	LastAckMillis  float64 `json:"lastAckMs,omitempty"`

	Refusals     []TurnRefusal `json:"refusals,omitempty"` // the first of them
	RefusalCount int           `json:"refusalCount,omitempty"`
}

// TurnObject is an object that a turn set or removed.
type TurnObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Change    string `json:"change"` // added, changed, removed; moved: to another place, with the same content
}

// TurnTable is what a turn did in one table.
type TurnTable struct {
	Name       string `json:"table"`
	Recomputed int    `json:"recomputed"`
	Changed    int    `json:"changed"`
}

// TurnResources is how many resources of a type a turn made different.
type TurnResources struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
}

// TurnRefusal is what a proxy refused of a turn, in its own words.
type TurnRefusal struct {
	Proxy   string   `json:"-"`     // whole, with what it proved
	ProxyID string   `json:"proxy"` // the node id
	Type    string   `json:"type"`
	Names   []string `json:"names"`
	Detail  string   `json:"detail"`
}

// Live is whether an object's version, or a turn, is in force on the proxies of one control plane, of /debug/livez.
type Live struct {
	State string `json:"state"` // one of the Live states
	// Turn is the turn in which the version came into force; At is when, if that is still known.
	Turn uint64     `json:"turn,omitempty"`
	At   *time.Time `json:"at,omitempty"`

	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	File       string `json:"file,omitempty"`
	Line       int    `json:"line,omitempty"`
	Generation int64  `json:"generation,omitempty"` // of the version in force; 0: it does not come from an API server

	Why   []string   `json:"why,omitempty"`   // it is not in force: what it waits for, or its errors
	Until *time.Time `json:"until,omitempty"` // when a wait ends at the latest

	Proxies int         `json:"proxies"`           // that are connected, and that the viewer may see
	Warming int         `json:"warming,omitempty"` // those that have acknowledged it, and have listeners or clusters that warm
	Silent  int         `json:"silent,omitempty"`  // those that have acknowledged it, and without an agent that reports warming
	Behind  []LiveProxy `json:"behind,omitempty"`
	More    int         `json:"more,omitempty"` // proxies that are behind and are not listed
}

// The states of Live.
const (
	LiveYes          = "live"         // every proxy has acknowledged it, and nothing warms
	LiveAcknowledged = "acknowledged" // every proxy has acknowledged it; whether it has warmed is not known of some
	LiveWarming      = "warming"      // every proxy has acknowledged it, and some have listeners or clusters that have not warmed
	LiveBehind       = "behind"       // it is in force in the tables, and some proxies have not acknowledged it
	LiveRefused      = "refused"      // some proxies refuse it, and all others have acknowledged it
	LiveWaits        = "waits"        // it waits for what it refers to, or for those that refer to it
	LiveUnread       = "unread"       // no such object, or no such version of it, was read
	LiveInvalid      = "invalid"      // the version has errors: the one before stays in force
	LivePending      = "pending"      // the turn has not come, or is being published
)

// InEffect reports whether nothing is known that is missing.
func (l Live) InEffect() bool { return l.State == LiveYes || l.State == LiveAcknowledged }

// ProxyWarming is the State of a LiveProxy that has acknowledged everything, and has listeners or clusters that have not warmed.
const ProxyWarming = "warming"

// LiveProxy is a proxy that lacks a turn.
type LiveProxy struct {
	ProxyID string     `json:"proxy"`
	State   string     `json:"state"` // not sent, not acknowledged, warming, refused, connecting
	Type    string     `json:"type,omitempty"`
	Name    string     `json:"name,omitempty"` // one of the resources
	Since   *time.Time `json:"since,omitempty"`
	Detail  string     `json:"detail,omitempty"` // a refusal, in the proxy's words
}

// RequestExplanation is what a proxy does with a request, of /debug/explainz.
type RequestExplanation struct {
	ProxyID   string       `json:"proxy"`
	Text      string       `json:"text"` // all of it, for people
	Ways      []RequestWay `json:"ways"` // the most probable first
	Truncated bool         `json:"truncated,omitempty"`
}

// RequestWay is one way that a request may take.
type RequestWay struct {
	Probability float64        `json:"probability"`
	Conditions  []string       `json:"conditions,omitempty"` // that the control plane cannot know
	Doubts      []string       `json:"doubts,omitempty"`     // why the proxy may do something else
	Steps       []RequestStep  `json:"steps"`
	Outcome     RequestOutcome `json:"outcome"`
}

// RequestStep is one decision, and the alternatives above it that did not match.
type RequestStep struct {
	Stage    string          `json:"stage"`
	Resource string          `json:"resource,omitempty"`
	Part     string          `json:"part,omitempty"`
	Decision string          `json:"decision"`
	Passed   []RequestPassed `json:"passed,omitempty"`
	Objects  []string        `json:"objects,omitempty"` // that users wrote
	// MoreObjects is set if the resource was made from more of them.
	MoreObjects bool `json:"moreObjects,omitempty"`
}

// RequestPassed is an alternative that did not match.
type RequestPassed struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}

// RequestOutcome is the end of a way.
type RequestOutcome struct {
	Kind      string            `json:"kind"` // answered, forwarded, closed, unknown
	Reason    string            `json:"reason,omitempty"`
	Status    int               `json:"status,omitempty"`
	Flag      string            `json:"responseFlag,omitempty"`
	Details   string            `json:"responseCodeDetails,omitempty"`
	Location  string            `json:"location,omitempty"`
	Cluster   string            `json:"cluster,omitempty"`
	TCP       bool              `json:"tcp,omitempty"`
	Authority string            `json:"authority,omitempty"`
	Path      string            `json:"path,omitempty"`
	Endpoints []RequestEndpoint `json:"endpoints,omitempty"`
}

// RequestEndpoint is an endpoint that may be picked.
type RequestEndpoint struct {
	Address  string  `json:"address"`
	Health   string  `json:"health,omitempty"`
	Locality string  `json:"locality,omitempty"`
	Priority uint32  `json:"priority,omitempty"`
	Share    float64 `json:"share,omitempty"`
}

// Connected lists the connected proxies in the form of Istio's /debug/adsz.
type Connected struct {
	Total   int      `json:"totalClients"`
	Clients []Client `json:"clients"`
}

// Client is one stream of Connected.
type Client struct {
	ID          string              `json:"connectionId"` // the node id
	ConnectedAt time.Time           `json:"connectedAt"`
	Address     string              `json:"address"`
	Labels      map[string]string   `json:"labels,omitempty"`
	Locality    string              `json:"locality,omitempty"`
	Metadata    ClientMetadata      `json:"metadata"`
	Watches     map[string][]string `json:"watches"` // by type URL; names are not listed
}

// ClientMetadata is what counts of a proxy's own metadata, under the metadata's names.
type ClientMetadata struct {
	Namespace string `json:"NAMESPACE,omitempty"`
	Cluster   string `json:"CLUSTER_ID,omitempty"`
	Network   string `json:"NETWORK,omitempty"`
	Version   string `json:"ISTIO_VERSION,omitempty"`
}

// Kind is a kind of objects that is read, of /debug/resourcesz.
type Kind struct {
	Group string `json:"Group"` // every version of it that Istio serves
	Kind  string `json:"Kind"`
}
