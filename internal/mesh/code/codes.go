package code

// Documents and objects.
const (
	// BadKubeconfig: a Secret does not say how to reach a cluster, or contains something that is not allowed.
	BadKubeconfig = "BadKubeconfig"
	// BadLabel: a label's name or value cannot be one, or a selector has a wildcard.
	BadLabel = "BadLabel"
	// BadList: a list of objects cannot be split into its items, so none of them is in force.
	BadList = "BadList"
	// BadName: a name has characters that such a name cannot have, or is empty.
	BadName = "BadName"
	// BadTime: a creationTimestamp is not a time.
	BadTime = "BadTime"
	// Deprecated: a field or value is in force, and Istio's API calls it deprecated.
	Deprecated = "Deprecated"
	// DuplicateObject: two documents hold the same object: one of them is not in force.
	DuplicateObject = "DuplicateObject"
	// ForeignKind: the object is of a kind that this control plane does not read.
	ForeignKind = "ForeignKind"
	// MissingRight: the control plane lacks a right to write something into the cluster.
	MissingRight = "MissingRight"
	// NoKind: the document has no kind.
	NoKind = "NoKind"
	// NoName: the object has no name.
	NoName = "NoName"
	// NoSchema: the kind's schema cannot be used, because of a mistake of the build.
	NoSchema = "NoSchema"
	// NotAnObject: the document is not a set of fields.
	NotAnObject = "NotAnObject"
	// NotShared: registered machines are not shared with other control planes, or a record of them cannot be read.
	NotShared = "NotShared"
	// OverBudget: the object would make more resources or bytes than one object, or its namespace, may.
	OverBudget = "OverBudget"
	// SourceStale: a source is not kept up to date for now: an API server that does not answer.
	SourceStale = "SourceStale"
	// FolderInUse: another control plane uses the folder that this one was to keep its files in.
	FolderInUse = "FolderInUse"
	// StateAway: the store of the state that control planes share does not answer.
	StateAway = "StateAway"
	// Syntax: the text is neither YAML nor JSON, or has too many values, too many levels, or bytes that are not UTF-8.
	Syntax = "Syntax"
	// TooManyProblems: a document or file has more problems than are listed; the severity is the worst of those left out.
	TooManyProblems = "TooManyProblems"
	// UnknownKind: an API group of Istio has no such kind.
	UnknownKind = "UnknownKind"
	// UnknownVersion: the kind has no such API version, or is not in such a group.
	UnknownVersion = "UnknownVersion"
	// Unreadable: a file, a folder or a document cannot be read.
	Unreadable = "Unreadable"
	// Waiting: a new version of the object waits for objects or keys that it needs; or its removal waits for the objects that refer to it.
	Waiting = "Waiting"
)

// Fields.
const (
	// BadDuration: a duration cannot be read, or is too short for its field.
	BadDuration = "BadDuration"
	// BadNumber: a number is out of its field's range.
	BadNumber = "BadNumber"
	// BadTelemetry: a setting of a Telemetry, or of the mesh's defaultProviders, cannot be applied.
	BadTelemetry = "BadTelemetry"
	// NoProvider: a Telemetry asks for reports, but neither it nor the mesh names a provider for them.
	NoProvider = "NoProvider"
	// BadPatch: a patch cannot be read, or makes something that Envoy would refuse: the resource stays as it is without the patch.
	BadPatch = "BadPatch"
	// BadPercent: a percentage is below 0 or above 100.
	BadPercent = "BadPercent"
	// BadRegex: a regular expression does not compile.
	BadRegex = "BadRegex"
	// BadStatus: a status cannot be answered: of HTTP out of 200 to 599, of gRPC without such a name, or no redirect.
	BadStatus = "BadStatus"
	// BadURL: a URL cannot be fetched from.
	BadURL = "BadURL"
	// BadValue: a value does not have the form of its field.
	BadValue = "BadValue"
	// Conflict: two settings exclude each other; as a Warning about a table: two sources made one row, and one of them has precedence.
	Conflict = "Conflict"
	// Duplicate: something that may be set once is set twice; a Warning if the first one counts.
	Duplicate = "Duplicate"
	// Invalid: the value breaks a rule of the kind's schema, which the message quotes.
	Invalid = "Invalid"
	// Missing: a required field is not set, or none of several alternatives is set.
	Missing = "Missing"
	// NotSupported: Envoy does not implement this setting.
	NotSupported = "NotSupported"
	// NotYet: the setting is accepted and kept, but has no effect yet.
	NotYet = "NotYet"
	// TooLong: a list in the mesh configuration is longer than it may be.
	TooLong = "TooLong"
	// TooMuch: a value, a list or the whole object is larger than it may be.
	TooMuch = "TooMuch"
	// UnknownField: the object has no such field.
	UnknownField = "UnknownField"
	// UnknownValue: the field does not accept this value.
	UnknownValue = "UnknownValue"
	// Unused: something is set that does nothing here.
	Unused = "Unused"
	// WrongType: the value is not of the field's type.
	WrongType = "WrongType"
)

// Hosts, ports and addresses.
const (
	// AddressForm: an endpoint's address is a name, but names are not resolved there.
	AddressForm = "AddressForm"
	// ClustersDiffer: clusters that have a service each say something else of one of its ports.
	ClustersDiffer = "ClustersDiffer"
	// OwnNamespaceOnly: a host, an address or a port counts only for clients of the object's own namespace.
	OwnNamespaceOnly = "OwnNamespaceOnly"
	// AddressTaken: on some port, requests to the address go to an older service: this one is only reached by its name there.
	AddressTaken = "AddressTaken"
	// BadAddress: the value is not an address, nor another form that the field accepts: a range, a name, a unix socket.
	BadAddress = "BadAddress"
	// BadExportTo: a list of namespaces that see the object has an invalid entry, or an entry that must be the only one.
	BadExportTo = "BadExportTo"
	// BadHost: a host's name is invalid, or not allowed here.
	BadHost = "BadHost"
	// BadLocality: a locality is not region/zone/subzone.
	BadLocality = "BadLocality"
	// BadPort: the value is not a port, which is a number from 1 to 65535.
	BadPort = "BadPort"
	// BadProtocol: a gateway cannot serve the protocol with these settings.
	BadProtocol = "BadProtocol"
	// HostOfOtherNamespace: another namespace declares the host too, and clients of other namespaces use that one.
	HostOfOtherNamespace = "HostOfOtherNamespace"
	// ForeignRule: a rule of another namespace decides for clients of a Service, or takes a host below another namespace's.
	ForeignRule = "ForeignRule"
	// HostTaken: an older VirtualService has the routes of the host for sidecars.
	HostTaken = "HostTaken"
	// LocalAddress: the address means each proxy's own machine, so proxies of other namespaces are not sent it.
	LocalAddress = "LocalAddress"
	// NoAddress: connections to a port without HTTP or TLS cannot be recognized by the service's address, because it has none.
	NoAddress = "NoAddress"
	// NameTaken: a short name means a host of that very name, not the service that it is short for.
	NameTaken = "NameTaken"
	// NoAddressLeft: the range for automatic addresses is full.
	NoAddressLeft = "NoAddressLeft"
	// NotUnder: a rule sends requests to a host of resolution DYNAMIC_DNS, but they are for no name below it: they do not get there.
	NotUnder = "NotUnder"
	// NoEndpoints: the service has no endpoints and nothing that finds any: requests to it fail.
	NoEndpoints = "NoEndpoints"
	// NoHost: a host is empty, or hosts are missing where they are required.
	NoHost = "NoHost"
	// NoPort: the service has no ports, or has several and none is chosen.
	NoPort = "NoPort"
	// PortConflict: an older server of the gateway speaks another protocol on the port.
	PortConflict = "PortConflict"
	// PortTaken: connections to the port cannot be distinguished from connections to an older service.
	PortTaken = "PortTaken"
	// ProxysOwn: the address, socket, file or cluster belongs to Envoy or its agent.
	ProxysOwn = "ProxysOwn"
	// ReservedPort: the port is the sidecar's own.
	ReservedPort = "ReservedPort"
	// SameHost: an older object declares the host too and has precedence; only endpoints and further ports of this one are used.
	SameHost = "SameHost"
	// ServicesDiffer: Services that lead to one port of a workload each say something else of it.
	ServicesDiffer = "ServicesDiffer"
	// UnknownHost: there is no such service, or the object's namespace does not see it.
	UnknownHost = "UnknownHost"
	// UnknownPort: the service has no such port.
	UnknownPort = "UnknownPort"
	// ClientFirst: connections to a port wait until the client has sent something, but a client of a server that speaks first never does.
	ClientFirst = "ClientFirst"
	// UnknownProtocol: the protocol's name is not known.
	UnknownProtocol = "UnknownProtocol"
	// UnknownRegistry: a network should have the endpoints of an unknown cluster.
	UnknownRegistry = "UnknownRegistry"
)

// Routes.
const (
	// BadAbort: a fault's abort has no status: requests are not aborted.
	BadAbort = "BadAbort"
	// BadCharacter: a value holds a control character: it is ignored.
	BadCharacter = "BadCharacter"
	// BadClaim: a condition names no claim, or is where claims are not matched.
	BadClaim = "BadClaim"
	// BadDelay: Envoy does not accept the length of a fault's delay: requests are not delayed.
	BadDelay = "BadDelay"
	// BadDelegate: a delegate has settings that a delegate must not have.
	BadDelegate = "BadDelegate"
	// BadHeader: a header's name cannot be one.
	BadHeader = "BadHeader"
	// BadHeaderName: a header cannot be matched or changed by this name.
	BadHeaderName = "BadHeaderName"
	// BadHeaderValue: a header's value cannot be one.
	BadHeaderValue = "BadHeaderValue"
	// BadMatch: a condition matches everything.
	BadMatch = "BadMatch"
	// BadMethod: an HTTP method is not written as one.
	BadMethod = "BadMethod"
	// BadQueryParam: a query parameter's name is empty or too long: the match block is left out.
	BadQueryParam = "BadQueryParam"
	// BadRedirectCode: the status of a redirect is not a redirect: 301 is sent.
	BadRedirectCode = "BadRedirectCode"
	// BadRetryOn: a status to retry on is not a status: it is ignored.
	BadRetryOn = "BadRetryOn"
	// BadRewrite: a rewrite refers to a group that the match does not have: paths are not rewritten.
	BadRewrite = "BadRewrite"
	// BadServerName: a server name cannot be matched: the match is left out.
	BadServerName = "BadServerName"
	// BadSubnet: a range of addresses cannot be read: the match is left out.
	BadSubnet = "BadSubnet"
	// BadWeight: a weight is negative, or the weights have no sum that can be shared by.
	BadWeight = "BadWeight"
	// BadWeights: the weights of a route have no sum that Envoy can share by: requests fail.
	BadWeights = "BadWeights"
	// BodyTooLarge: an answer's body is larger than Envoy answers with: it is left out.
	BodyTooLarge = "BodyTooLarge"
	// DelegateConflict: a delegate's match is not within its root's: it matches no request of that root.
	DelegateConflict = "DelegateConflict"
	// EmptyRoute: a route has neither a destination nor a response: it is left out.
	EmptyRoute = "EmptyRoute"
	// IgnoredHeader: the condition is not on a header, and is ignored.
	IgnoredHeader = "IgnoredHeader"
	// NoRoute: there is no route, or a route has no destination.
	NoRoute = "NoRoute"
	// ManyRoutes: a VirtualService has so many hosts and routes that proxies need more than a second to apply a change of it.
	ManyRoutes = "ManyRoutes"
	// PrefixRewriteWithoutPrefix: a redirect replaces a prefix, and the match has none.
	PrefixRewriteWithoutPrefix = "PrefixRewriteWithoutPrefix"
	// SourceWithoutMesh: a condition on the source never holds, for the rule is for gateways only.
	SourceWithoutMesh = "SourceWithoutMesh"
	// UnknownDelegate: there is no VirtualService that the route may delegate to: the route matches no request.
	UnknownDelegate = "UnknownDelegate"
	// UnknownRetryOn: Envoy knows no such condition to retry on.
	UnknownRetryOn = "UnknownRetryOn"
	// UnknownSubset: no DestinationRule that the object's namespace sees has the subset: requests to it are answered 503.
	UnknownSubset = "UnknownSubset"
	// Unreachable: an earlier route matches every request, so none reaches this one.
	Unreachable = "Unreachable"
	// UnreachableRoute: an earlier match accepts every connection, so none reaches this route.
	UnreachableRoute = "UnreachableRoute"
	// UnusedDelegate: a VirtualService without hosts that no other one delegates to.
	UnusedDelegate = "UnusedDelegate"
	// WithheldCommand: a header's value would send data that only the client's proxy knows, and rules may not do that.
	WithheldCommand = "WithheldCommand"
)

// Gateways.
const (
	// BadGateway: the value is not a valid gateway name.
	BadGateway = "BadGateway"
	// HostNotServed: no server of the Gateway serves the rule's host to its namespace.
	HostNotServed = "HostNotServed"
	// NoClaims: a route matches a token's claims at gateways where no policy verifies tokens.
	NoClaims = "NoClaims"
	// NoMatch: a patch of an EnvoyFilter matches nothing that the proxies are sent that it is for.
	NoMatch = "NoMatch"
	// NoCaller: no workload has the identity or namespace that a rule of an AuthorizationPolicy names.
	NoCaller = "NoCaller"
	// NoWorkload: no workload that is known has the labels that the object selects.
	NoWorkload = "NoWorkload"
	// NotExported: no workload is known in the namespaces that the object is exported to.
	NotExported = "NotExported"
	// NoRouter: no connected gateway proxy has the labels that the Gateway selects.
	NoRouter = "NoRouter"
	// NotOnService: no Service of the gateway's proxies leads to a port that they are to serve.
	NotOnService = "NotOnService"
	// SharedCertificate: several Gateways show one certificate for other hosts.
	SharedCertificate = "SharedCertificate"
	// ServerNameConflict: an older server of the port has the TLS server name.
	ServerNameConflict = "ServerNameConflict"
	// UnknownGateway: there is no such Gateway.
	UnknownGateway = "UnknownGateway"
	// UnknownGatewayClass: there is no GatewayClass of the name.
	UnknownGatewayClass = "UnknownGatewayClass"
	// UnknownIngressClass: there is no such IngressClass, so no known controller carries the Ingress out.
	UnknownIngressClass = "UnknownIngressClass"
)

// Traffic policies and services' rules.
const (
	// BadHashKey: Envoy would refuse the hash key: requests are balanced at random.
	BadHashKey = "BadHashKey"
	// EmptySubset: no endpoint has the subset's labels: requests to it fail.
	EmptySubset = "EmptySubset"
	// GatewaysOnly: the setting holds for gateways, and for sidecars that a workloadSelector picks.
	GatewaysOnly = "GatewaysOnly"
	// SidecarsOnly: routes hold for sidecars, and gateways send requests to the host without them.
	SidecarsOnly = "SidecarsOnly"
	// HashWithoutEndpoints: connections go where clients send them, so there is nothing to balance by hash.
	HashWithoutEndpoints = "HashWithoutEndpoints"
	// HashWithoutHTTP: the port carries no HTTP that proxies can read, so there is nothing to hash.
	HashWithoutHTTP = "HashWithoutHTTP"
	// DirectPlaintext: clients choose among a service's addresses themselves and use plaintext there, because not all servers behind its
	// own address, or behind an unknown one, are known to accept mutual TLS.
	DirectPlaintext = "DirectPlaintext"
	// MTLSMismatch: with a DestinationRule, clients use a TLS mode that the servers refuse.
	MTLSMismatch = "MTLSMismatch"
	// NotVerified: server names are verified by the system's trust store, as no authority is named.
	NotVerified = "NotVerified"
	// RingTooLarge: a hash ring is larger than proxies accept: it gets the largest size that they accept.
	RingTooLarge = "RingTooLarge"
	// SecondDefault: the namespace has an older Sidecar without a selector already.
	SecondDefault = "SecondDefault"
	// SecondPolicy: an older DestinationRule of the host sets the traffic policy; only the subsets of this one are used.
	SecondPolicy = "SecondPolicy"
	// Shadowed: an older policy is for the same workloads: this one has no effect.
	Shadowed = "Shadowed"
	// SubsetTaken: an older DestinationRule of the host has a subset of that name.
	SubsetTaken = "SubsetTaken"
	// TLSInTLS: clients speak TLS on the port already: it would be put inside another TLS connection.
	TLSInTLS = "TLSInTLS"
)

// Certificates and who may do what.
const (
	// BadBase64: a Secret's value is not base64.
	BadBase64 = "BadBase64"
	// BadCertificate: a Secret's certificate cannot be read.
	BadCertificate = "BadCertificate"
	// BadExtension: an item of one of this mesh's own settings is invalid.
	BadExtension = "BadExtension"
	// BadHolders: a Secret's annotation names what cannot be a service account, or too many.
	BadHolders = "BadHolders"
	// BadKey: a Secret's private key cannot be used.
	BadKey = "BadKey"
	// BadKeys: a text is not a JSON Web Key Set.
	BadKeys = "BadKeys"
	// BadRevocationList: a Secret's revocation list cannot be read.
	BadRevocationList = "BadRevocationList"
	// BadSecret: a key of a Secret is not UTF-8.
	BadSecret = "BadSecret"
	// BadStaple: a Secret's OCSP staple is not a successful response.
	BadStaple = "BadStaple"
	// Expired: a certificate has expired.
	Expired = "Expired"
	// HolderNotNamed: a proxy needs a Secret to serve and does not get it, because nothing says that it may have it.
	HolderNotNamed = "HolderNotNamed"
	// KeyMismatch: a Secret's private key is not that of its certificate.
	KeyMismatch = "KeyMismatch"
	// NotGranted: an object uses something of another namespace, and neither that namespace nor the mesh allows it: it is left out.
	NotGranted = "NotGranted"
	// NotRegistered: a machine that names a WorkloadGroup is not registered: it has no WorkloadEntry.
	NotRegistered = "NotRegistered"
	// LabelsNotVouched: a proxy claims labels that the object selects, and nothing else gives them to its service account: it is not
	// selected.
	LabelsNotVouched = "LabelsNotVouched"
	// MissingSecret: a named Secret does not exist or cannot be used: the object that needs it is not served.
	MissingSecret = "MissingSecret"
	// NeverHolds: a rule of a policy can match nothing, because no request meets its conditions.
	NeverHolds = "NeverHolds"
	// NoAuthorizer: there is no usable provider for a policy of action CUSTOM: all requests that it matches are denied.
	NoAuthorizer = "NoAuthorizer"
	// NoCertificate: a server needs a certificate file that is not named: it is not served.
	NoCertificate = "NoCertificate"
	// NoIdentity: a proxy without an identity is connected: it gets no cluster that asks for mutual TLS.
	NoIdentity = "NoIdentity"
	// NoRules: a policy that denies has no rules and denies nothing.
	NoRules = "NoRules"
	// NotEnforced: no proxy enforces a policy, so requests that it would refuse are let through.
	NotEnforced = "NotEnforced"
	// RunsLua: an object runs Lua, which has all rights of the proxy; or it may not run Lua, so the Lua does not run.
	RunsLua = "RunsLua"
	// NotRun: some proxy cannot run an extension: it goes without it or refuses requests, according to failStrategy.
	NotRun = "NotRun"
	// NoKeys: the keys of an issuer of tokens are not available, so every token of it is refused.
	NoKeys = "NoKeys"
	// NotYetValid: a certificate is not valid yet.
	NotYetValid = "NotYetValid"
	// OnlyRequests: a rule asks for what only HTTP requests have, at a port that is not HTTP: an ALLOW rule matches nothing there.
	OnlyRequests = "OnlyRequests"
	// StaleKeys: the keys of an issuer of tokens cannot be fetched again: the previous ones still count.
	StaleKeys = "StaleKeys"
	// TooManyVariants: proxies of one service account say too many different things of themselves: some get the mesh's defaults.
	TooManyVariants = "TooManyVariants"
	// Uncompiled: something of a policy cannot be carried out: the rule lets nothing through that it does not surely mean.
	Uncompiled = "Uncompiled"
	// UnknownLocality: proxies claim localities that nothing in the mesh has: they do not count.
	UnknownLocality = "UnknownLocality"
	// UnknownExtension: a setting has the prefix of this mesh's own ones and means nothing.
	UnknownExtension = "UnknownExtension"
	// UnreadableFile: a gateway cannot read a certificate file.
	UnreadableFile = "UnreadableFile"
	// WeakKey: Envoy refuses keys of this type or size.
	WeakKey = "WeakKey"
)

// Workloads, injection and annotations.
const (
	// AutoImage: a pod leaves the proxy's image to injection, and is not injected.
	AutoImage = "AutoImage"
	// BadAnnotation: pods with this value of the annotation cannot be injected.
	BadAnnotation = "BadAnnotation"
	// MisplacedAnnotation: an annotation is on a kind of object where it means nothing.
	MisplacedAnnotation = "MisplacedAnnotation"
	// NoProxy: a pod was to be injected and runs without a proxy.
	NoProxy = "NoProxy"
	// NotInjected: no pod of a namespace gets a proxy.
	NotInjected = "NotInjected"
	// OtherProxyImage: a pod runs another image of the proxy than one that is injected now.
	OtherProxyImage = "OtherProxyImage"
	// ReservedUser: a container runs as the proxy's user, so its connections bypass the proxy.
	ReservedUser = "ReservedUser"
	// UnknownAnnotation: an annotation has a name of Istio's and means nothing.
	UnknownAnnotation = "UnknownAnnotation"
)

// The control plane's own.
const (
	// Note: a table reports something other than the mistakes above.
	Note = "Note"
	// Panic: computing a row failed: its last good value stays in force.
	Panic = "Panic"
	// Refused: Envoy refuses, or would refuse, the resource made of the object: proxies keep the one that they had.
	Refused = "Refused"
)
