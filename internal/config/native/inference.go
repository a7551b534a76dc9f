package native

// InferenceGroup is the API group of the Gateway API's inference extension.
const InferenceGroup = "inference.networking.k8s.io"

// InferencePoolSpec is the spec of an InferencePool (https://gateway-api-inference-extension.sigs.k8s.io/reference/spec): model servers
// that an endpoint picker chooses from. Its schema is schemas/native/InferencePool.json.
type InferencePoolSpec struct {
	Selector          PoolSelector       `json:"selector"`
	TargetPorts       []PoolPort         `json:"targetPorts"` // each one of each workload is an endpoint
	AppProtocol       string             `json:"appProtocol,omitempty"`
	EndpointPickerRef *EndpointPickerRef `json:"endpointPickerRef,omitempty"`
}

// PoolSelector selects workloads of the pool's namespace that have all of the labels.
type PoolSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// PoolPort is a port of workloads, or of a Service.
type PoolPort struct {
	Number uint32 `json:"number"`
}

// EndpointPickerRef names the endpoint picker of a pool, in the pool's namespace.
type EndpointPickerRef struct {
	Group       string    `json:"group,omitempty"`
	Kind        string    `json:"kind,omitempty"` // empty: Service
	Name        string    `json:"name"`
	Port        *PoolPort `json:"port,omitempty"`        // of the Service
	FailureMode string    `json:"failureMode,omitempty"` // FailOpen; empty: FailClose
}

// H2C is the appProtocol of a pool with servers that take HTTP/2 in plaintext.
const H2C = "kubernetes.io/h2c"

// FailOpen is the failure mode of a pool that any endpoint may serve while its picker fails.
const FailOpen = "FailOpen"
