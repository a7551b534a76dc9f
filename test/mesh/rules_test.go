package mesh

// rules are the mesh's: strict everywhere; a service of b's, one whose endpoint is somebody else, and a way in from outside.
func (n network) rules() string {
	return `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: b, namespace: default}
spec:
  hosts: [b.test]
  addresses: ["` + n.service + `"]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 90, name: tcp, protocol: TCP, targetPort: 9000}
  endpoints: [{address: "` + n.ip("b") + `", labels: {app: b}, serviceAccount: shop}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: impostor, namespace: default}
spec:
  hosts: [impostor.test]
  addresses: ["` + n.fake + `"]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP, targetPort: 8443}
  endpoints: [{address: "` + n.impostor + `", serviceAccount: shop}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: edge, namespace: default}
spec: {metadata: {labels: {istio: gateway}}, template: {serviceAccount: edge}}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: default}
spec:
  selector: {istio: gateway}
  servers:
  - {port: {number: 8080, name: http, protocol: HTTP}, hosts: [shop.example]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: edge, namespace: default}
spec:
  hosts: [shop.example]
  gateways: [edge]
  http: [{retries: {attempts: 0}, route: [{destination: {host: b.test, port: {number: 80}}}]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: impostor, namespace: default}
spec:
  hosts: [impostor.test]
  http: [{retries: {attempts: 0}, route: [{destination: {host: impostor.test}}]}]
`
}

// more is a service at the second addresses of b, where it has some.
func (c cell) more() string {
	if c.second == nil {
		return ""
	}
	return `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: second, namespace: default}
spec:
  hosts: [second.test]
  addresses: ["` + c.second.service + `"]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 90, name: tcp, protocol: TCP, targetPort: 9000}
  endpoints: [{address: "` + c.second.ip("b") + `", labels: {app: b}, serviceAccount: shop}]
`
}
