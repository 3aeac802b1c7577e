package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/experiment/cluster"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate
}

// newAuthority returns an authority whose files are in a directory of the test.
func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.file, _ = a.sign("authority", template)
	return a
}

// sign creates a key and a certificate for it, and returns their files.
func (a *authority) sign(name string, template *x509.Certificate) (cert, key string) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &private.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.cert == nil {
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
		a.key = private
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key
}

// leaf creates a certificate for 127.0.0.1.
func (a *authority) leaf(name string) (cert, key string) {
	return a.sign(name, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// TestAccess_RightCredentialsGetIn checks that clients with the right credentials get in, and that others are
// told what is wrong.
func TestAccess_RightCredentialsGetIn(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	cert, key := ours.leaf("server")
	clientCert, clientKey := ours.leaf("client")
	strangerCert, strangerKey := others.leaf("stranger")
	type attempt struct {
		access cluster.Access
		wrong  string // contained in the error; empty if there is none
	}
	const refused = "refused the credentials"
	for name, c := range map[string]struct {
		options  Options
		attempts map[string]attempt
	}{
		"open": {Options{}, map[string]attempt{
			"nothing needed": {},
		}},
		"password": {Options{User: "u", Password: "p"}, map[string]attempt{
			"right":   {cluster.Access{User: "u", Password: "p"}, ""},
			"wrong":   {cluster.Access{User: "u", Password: "q"}, refused},
			"nobody":  {cluster.Access{User: "v", Password: "p"}, refused},
			"without": {cluster.Access{}, refused},
		}},
		"token": {Options{Token: "t"}, map[string]attempt{
			"right": {cluster.Access{Token: "t"}, ""},
			"wrong": {cluster.Access{Token: "u"}, refused},
		}},
		"TLS": {Options{Cert: cert, Key: key, User: "u", Password: "p"}, map[string]attempt{
			"right":           {cluster.Access{CA: ours.file, User: "u", Password: "p"}, ""},
			"wrong password":  {cluster.Access{CA: ours.file, User: "u", Password: "q"}, refused},
			"other authority": {cluster.Access{CA: others.file, User: "u", Password: "p"}, "unknown authority: give the authority's certificate"},
			"without":         {cluster.Access{User: "u", Password: "p"}, "unknown authority: give the authority's certificate"},
			"no such file":    {cluster.Access{CA: "/nowhere.pem"}, "/nowhere.pem"},
			"no key":          {cluster.Access{CA: ours.file, Cert: clientCert}, "its key go together"},
		}},
		"clients' certificates": {Options{Cert: cert, Key: key, ClientCA: ours.file}, map[string]attempt{
			"right":    {cluster.Access{CA: ours.file, Cert: clientCert, Key: clientKey}, ""},
			"stranger": {cluster.Access{CA: ours.file, Cert: strangerCert, Key: strangerKey}, "give one that it accepts"},
			"without":  {cluster.Access{CA: ours.file}, "give one that it accepts"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Dir, c.options.Address = t.TempDir(), "127.0.0.1:0"
			s, err := Serve(c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for name, a := range c.attempts {
				t.Run(name, func(t *testing.T) {
					a.access.URL = s.URLs()[0]
					client, err := cluster.Dial(t.Context(), a.access)
					if err == nil {
						client.Close()
					}
					if (err == nil) != (a.wrong == "") || err != nil && !strings.Contains(err.Error(), a.wrong) {
						t.Errorf("%v, want %q", err, a.wrong)
					}
				})
			}
		})
	}
}

// TestDial_SaysWhatIsAtTheOtherEnd checks that errors say what is at the other end.
func TestDial_SaysWhatIsAtTheOtherEnd(t *testing.T) {
	// A socket that does not listen keeps the port from others.
	quiet, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(quiet)
	if err := unix.Bind(quiet, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(quiet)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	bare, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	bare.Start()
	defer bare.WaitForShutdown()
	defer bare.Shutdown()
	if !bare.ReadyForConnections(time.Minute) {
		t.Fatal("the server without JetStream does not start")
	}
	for url, want := range map[string]error{"nats://user:secret@" + address: nats.ErrNoServers, bare.ClientURL(): jetstream.ErrJetStreamNotEnabled, "nats://": nil} {
		_, err := cluster.Dial(t.Context(), cluster.Access{URL: url})
		if err == nil || want != nil && !errors.Is(err, want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %v", url, err, want)
		}
	}
}

// TestWorker_GivesUpWhenItsPasswordChanges checks that a client that is refused on
// reconnecting gives up, and that its worker says why.
func TestWorker_GivesUpWhenItsPasswordChanges(t *testing.T) {
	// At an address of its own it finds its port free again.
	o := Options{Dir: t.TempDir(), Address: fmt.Sprintf("127.%d.%d.1:0", os.Getpid()>>8&0xff, os.Getpid()&0xff), User: "u", Password: "p"}
	s, err := Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cluster.Dial(t.Context(), cluster.Access{URL: s.URLs()[0], User: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- (&cluster.Worker{Client: client}).Run(ctx, func(context.Context, cluster.Job, cluster.Reporter) ([]byte, error) { return nil, nil })
	}()
	o.Address = strings.TrimPrefix(s.URLs()[0], "nats://")
	s.Close()
	o.Password = "q"
	if s, err = Serve(o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "refused the credentials") {
		t.Errorf("the worker ends with %v", err)
	}
}

func TestServe_RefusesUnsafeOptions(t *testing.T) {
	dir := t.TempDir()
	s, err := Serve(Options{Dir: dir, Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	taken := strings.TrimPrefix(s.URLs()[0], "nats://")
	a := newAuthority(t)
	cert, key := a.leaf("server")
	for want, o := range map[string]Options{
		"give user and password, a token, or": {Address: "0.0.0.0:0"},
		"address :0: anyone":                  {Address: ":0"},
		"anyone who can reach it":             {Address: "[::]:0", Cert: cert, Key: key},
		"want HOST:PORT":                      {Address: "127.0.0.1"},
		`"http" is not a port`:                {Address: "127.0.0.1:http"},
		"another server uses this directory":  {Dir: dir, Address: "127.0.0.1:0"},
		"address already in use":              {Address: taken},
		"needs a directory":                   {Dir: "-", Address: "127.0.0.1:0"},
		"certificate and its key go together": {Address: "127.0.0.1:0", Cert: cert},
		"only be asked for certificates over": {Address: "127.0.0.1:0", ClientCA: a.file},
		"user and password go together":       {Address: "127.0.0.1:0", User: "u"},
		"either user and password or a token": {Address: "127.0.0.1:0", User: "u", Password: "p", Token: "t"},
		"the server's certificate":            {Address: "127.0.0.1:0", Cert: key, Key: cert},
		"has no PEM certificate":              {Address: "127.0.0.1:0", Cert: cert, Key: key, ClientCA: key},
	} {
		switch o.Dir {
		case "":
			o.Dir = t.TempDir()
		case "-":
			o.Dir = ""
		}
		s, err := Serve(o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// TestURLs_AreThoseThatOthersReach checks that a server that listens on all addresses lists those that other
// machines can reach.
func TestURLs_AreThoseThatOthersReach(t *testing.T) {
	for address, check := range map[string]func(urls []string) bool{
		"127.0.0.1:0": func(urls []string) bool { return len(urls) == 1 && strings.HasPrefix(urls[0], "nats://127.0.0.1:") },
		"localhost:0": func(urls []string) bool { return len(urls) == 1 && strings.HasPrefix(urls[0], "nats://localhost:") },
		"0.0.0.0:0": func(urls []string) bool {
			for _, u := range urls {
				if strings.Contains(u, "0.0.0.0") || strings.Contains(u, "127.0.0.1") || strings.Contains(u, "secret") {
					return false
				}
			}
			return true
		},
	} {
		s, err := Serve(Options{Dir: t.TempDir(), Address: address, User: "u", Password: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		if urls := s.URLs(); !check(urls) {
			t.Errorf("%s: %q", address, urls)
		}
		s.Close()
	}
}

// TestServe_OnlyItsOwnDirectoryIsPrivate: the directory that it is in, which may be that of an
// experiment's results, has the mode of any directory that this process makes.
func TestServe_OnlyItsOwnDirectoryIsPrivate(t *testing.T) {
	parent := t.TempDir()
	results, other := filepath.Join(parent, "results"), filepath.Join(parent, "other")
	if err := os.MkdirAll(other, 0o777); err != nil {
		t.Fatal(err)
	}
	s, err := Serve(Options{Dir: filepath.Join(results, "nats"), Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mode := func(dir string) os.FileMode {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if got, want := mode(results), mode(other); got != want {
		t.Errorf("the results have mode %o, not %o", got, want)
	}
	if got := mode(filepath.Join(results, "nats")); got != 0o700 {
		t.Errorf("the server's directory has mode %o", got)
	}
}
