package inject

import (
	"istio.io/api/annotation"
	"istio.io/api/label"
)

// The names of injected containers, volumes and labels. They are Istio's: policies, dashboards and users' overrides know them.
const (
	ProxyContainer = "istio-proxy"
	initContainer  = "istio-init"

	volumeConfig    = "istio-envoy"
	volumePodInfo   = "istio-podinfo"
	volumeToken     = "istio-token"
	volumeRoots     = "istiod-ca-cert"
	volumeBootstrap = "custom-bootstrap-volume"

	rootsConfigMap = "istio-ca-root-cert"
	proxyUID       = int64(1337)
)

// Labels of namespaces, and those of pods that istio.io/api does not name.
const (
	// NamespaceLabel says of a namespace whether its pods are injected: "enabled" or "disabled".
	NamespaceLabel    = "istio-injection"
	tlsMode           = "security.istio.io/tlsMode"
	canonicalName     = "service.istio.io/canonical-name"
	canonicalRevision = "service.istio.io/canonical-revision"
	networkLabel      = "topology.istio.io/network"

	prometheusScrape = "prometheus.io/scrape"
	prometheusPort   = "prometheus.io/port"
	prometheusPath   = "prometheus.io/path"

	defaultContainer     = "kubectl.kubernetes.io/default-container"
	defaultLogsContainer = "kubectl.kubernetes.io/default-logs-container"
)

// revisionLabel and injectLabel are labels of pods; revisionLabel is one of namespaces too.
func revisionLabel() string { return label.IoIstioRev.Name }
func injectLabel() string   { return label.SidecarInject.Name }

// statusAnnotation is the annotation with the record of the injection; a pod that has it was injected.
func statusAnnotation() string { return annotation.SidecarStatus.Name }

// The ports of a proxy.
const (
	readyPort       = 15021
	metricsPort     = 15090
	statusPort      = 15020
	readyPath       = "/healthz/ready"
	defaultRevision = "default"
)
