// Package histories holds the law "incremental = from scratch" over the whole program: a folder of rules of every kind
// that has behaviour changes at random, proxies of every form come, go and come back, the control plane is ended and
// started again; after each step every proxy holds, byte for byte, what the same proxy gets from a control plane that
// was just started on the same folder. In some, a cluster replaces the folder: then Services, pods, machines and namespaces change too, and
// the API server is cut off, loses its history, and is killed. In others, registries are read beside the folder: real servers with
// instances and rules that change. The registries are added and removed, are killed, and come back with their data or empty. Programs
// (pilot-discovery as users run it) are killed at each end.
// Twins are two control planes with their state in a store, one of which ends or is cut off.
//
// A history is made from a seed and is a script: a list of steps that can be printed, read back and shortened. One that
// fails is shortened as far as it still fails, and the test prints the script and the seed.
//
//	go test ./test/histories -run InProcess -steps 20000 -seed 7
//	go test ./test/histories -run Programs -steps 500
//	go test ./test/histories -run Cluster -steps 500
//	go test ./test/histories -run 'Registries$' -steps 500
//	go test ./test/histories -run RegistriesPrograms -steps 100
//	go test ./test/histories -run Twins -steps 500
//	go test ./test/histories -run InProcess -script failed.yaml
package histories
