// Package compiletest runs the whole graph for tests: objects in as YAML, proxies connected by a line of text, tables
// out as they print themselves.
//
// Golden is a script in a txtar archive. The comment holds the commands, one on each line; the files hold the input and the expected
// output:
//
//	apply FILE                          the objects of a YAML stream; MeshConfig as "kind: MeshConfig" with its fields under spec
//	delete KIND NAMESPACE/NAME
//	credential NAMESPACE/NAME [chain=WORD] [ca=WORD] [crl=WORD]     a Secret, words in the place of certificates ("_" for a blank)
//	connect TYPE NAME.NAMESPACE IP [LABELS] [MODE] [vip] [dns] [mutual] [modules] [here|proven=ACCOUNT]
//	                                    a proxy; "-" for no labels; here: on the control plane's machine; modules: its agent
//	                                    fetches Wasm modules
//	disconnect NAME.NAMESPACE
//	refuse NAME.NAMESPACE WORDS         a proxy refuses its listeners, with these words
//	report NAME.NAMESPACE[@ACCOUNT] IP healthy|WORD    what a sidecar's agent says of its application;
//	                                    NAME=ENTRY.NAMESPACE where it names its WorkloadEntry
//	silent NAME.NAMESPACE               nothing is known of it any more
//	stored ENTRY.NAMESPACE healthy|failing|unknown    what another control plane wrote of the application there
//	keys ISSUER|URI KEYS|- [WHY]        what an issuer answers, or the address of its keys, which ends in /keys; why not since
//	heard                               every agent had the time to report
//	cmp FILE TABLE [FILTER]             settles, then the table's rows, those with FILTER in some column, must be FILE
//	clusters FILE                       settles, then clusters and load assignments must be FILE
//	listeners FILE                      settles, then listeners, described, must be FILE
//	routes FILE                         settles, then virtual hosts, route configurations, secrets, gateways' listeners and
//	                                    what clusters they need must be FILE
//	names FILE                          settles, then the names that are published must be FILE
//	problems FILE                       settles, then all problems must be FILE
//
// The compared text must be the same in one turn and with a turn after each command.
//
// With the flag -update the expected files are rewritten.
package compiletest
