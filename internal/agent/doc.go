// Package agent is pilot-agent: Envoy beside a workload. It has four rooms, each of which imports those after it, and their parts:
//
//	command     what is typed: proxy, run, wait, request, iptables
//	run         an application and its proxy, in the mesh of pilot-discovery dev
//	proxy       Envoy and what stands beside it, running
//	settings    how that is configured, from flags, environment and files
//
//	epoch       Envoy's processes, hot restarts       secrets     certificates, to Envoy (SDS)
//	drain       connections that end                  relay       xDS between Envoy and the control plane
//	status      readiness, probes, metrics            names       DNS
//	exposition  metrics of several programs as one    extensions  Wasm modules, fetched for Envoy
//	patches     changes to the bootstrap              health      checks of the application
//	admin       Envoy's administration                intercept   the kernel's rules
//	socket      unix sockets for Envoy                token       a secret that its Envoy shows
//	peer        who is at a connection's other end    cpu         how many processors may be used
//	early       signals from the first moment on      warming     Envoy's listeners and clusters that warm
//	reach       why the control plane is not reached  planes      which of several control planes is used
//
// None of them makes configuration: the control plane does that, over xDS. They link nothing of Kubernetes.
package agent
