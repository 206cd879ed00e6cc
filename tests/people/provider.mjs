// An OpenID Connect provider with a few accounts, on loopback, for the tests of signing in.
// Arguments: port, redirect URI, accounts as JSON: { login: { email, groups } }.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, port, redirectUri, accountsText] = process.argv.slice(2);
const found = createRequire(`${packages}/`).resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(found).href);

const accounts = JSON.parse(accountsText);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "detent",
      client_secret: "a-secret-of-the-tests",
      token_endpoint_auth_method: "client_secret_post",
      redirect_uris: [redirectUri],
      grant_types: ["authorization_code"],
      response_types: ["code"],
    },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["groups"] },
  cookies: { keys: ["a-key-of-the-tests"] },
  pkce: { required: () => true },
  findAccount: (_, id) =>
    accounts[id] && {
      accountId: id,
      claims: () => ({ sub: id, email_verified: true, ...accounts[id] }),
    },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
