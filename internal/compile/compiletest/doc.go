// Package compiletest runs the whole graph for tests: objects in as YAML, proxies connected by a line of text, tables
// out as they print themselves.
//
// Golden is a script in a txtar archive. Its comment holds the commands, one a line, its files what is applied and what must come out:
//
//	apply FILE                          the objects of a YAML stream; MeshConfig as "kind: MeshConfig" with its fields under spec
//	delete KIND NAMESPACE/NAME
//	connect TYPE NAME.NAMESPACE IP [LABELS] [MODE] [vip] [dns]      a proxy; "-" for no labels
//	disconnect NAME.NAMESPACE
//	report NAME.NAMESPACE[@ACCOUNT] IP healthy|WORD    what a sidecar's agent says of its application;
//	                                    NAME=ENTRY.NAMESPACE where it names its WorkloadEntry
//	silent NAME.NAMESPACE               nothing is known of it any more
//	heard                               every agent had the time to report
//	cmp FILE TABLE [FILTER]             settles, then the table's rows, those with FILTER in some column, must be FILE
//	names FILE                          settles, then the names that are published must be FILE
//	problems FILE                       settles, then all problems must be FILE
//
// With the flag -update the expected files are rewritten.
package compiletest
