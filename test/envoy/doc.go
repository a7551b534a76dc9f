// Package envoy sends real HTTP and TCP traffic through stock Envoys that the control plane of this process configures:
// a test for every feature that is compiled, each with an assertion that fails when the traffic goes elsewhere. Package
// live, below, is the mesh they run in.
//
// A case that is rules, requests and their answers is a file of testdata/features, a script whose commands script_test.go
// explains; a new one needs no Go. What takes more is a test in Go, with its rules in testdata.
//
// Features that do not get in each other's way share one mesh (TestFeatures), each under hosts of its own;
// TestStateOfTheWorld runs the same with Envoys that speak the other protocol. What changes the mesh as a whole, or
// must be watched under load, has a mesh of its own.
//
// The tests need an Envoy (make envoy, or ENVOY=/path) and are skipped without one, and with -short. Interception needs
// a network namespace of its own and is skipped where the kernel forbids that.
package envoy
