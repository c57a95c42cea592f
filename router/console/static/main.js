// The start of the scripts. Every page works without them; what only they serve is hidden
// until they run. Modules that a page may not need are loaded at their first use.

const policy = window.trustedTypes?.createPolicy('signalbox', { createHTML: html => html })

// parse returns the elements of HTML that this service rendered. It alone may make them.
export function parse(html) {
	const template = document.createElement('template')
	template.innerHTML = policy ? policy.createHTML(html) : html
	return template.content
}

// root is the address below which the pages of the console are.
const root = new URL(document.body.dataset.root + '/', location.href).href

// inside returns the URL of a page of the console, and fails for any other.
export function inside(address, base = root) {
	const url = new URL(address, base)
	if (!url.href.startsWith(root)) throw new TypeError(url)
	return url
}

// load requests parts of a page, or sends a form. The response is text, which has the parts
// only if shows is true, and next is the page that it leads to. No redirect is followed.
export async function load(address, parts, options) {
	const response = await fetch(address, { mode: 'same-origin', redirect: 'manual', ...options, headers: { 'X-Fragment': parts } })
	const { headers, status, url } = response
	// Only a proxy responds for a service that is not there.
	if (status > 501 && !headers.has('X-Request-Id')) throw new TypeError(status)
	const next = headers.get('X-Location')
	return { status, text: await response.text(), shows: headers.get('X-Fragment') === parts, next: next && inside(next, url) }
}

// byId and on are short for methods of the document.
export const byId = id => document.getElementById(id)
export const on = document.addEventListener.bind(document)

export const main = document.querySelector('main')
const live = byId('live')

// texts are the sentences of the scripts in the page's language.
export const texts = live.dataset

export const make = (tag, properties) => Object.assign(document.createElement(tag), properties)

// say announces a text to screen readers.
export function say(text) {
	live.textContent = ''
	setTimeout(() => { live.textContent = text }, 50)
}

// fail shows a failure at the head of the page or of a part, with elements after the text.
export function fail(text, within = main, ...more) {
	within.querySelector(':scope > .failed')?.remove()
	const message = make('p', { className: 'message bad failed', role: 'alert' })
	message.append(text, ...more)
	within.prepend(message)
	message.scrollIntoView({ block: 'nearest' })
}

// visible marks characters that would change the text around them, but those of keep.
export const visible = (text, keep = '') => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
	c => keep.includes(c) ? c : `⟨U+${c.codePointAt().toString(16).toUpperCase().padStart(4, '0')}⟩`)

// number returns a number as text, with one decimal below 10.
export const number = value => new Intl.NumberFormat(language, { maximumFractionDigits: value < 10 ? 1 : 0 }).format(value)

// local returns a time, or a part of it, in the time zone of the user. Sweden writes times as ISO 8601.
const zone = { timeZone: document.body.dataset.zone, dateStyle: 'short', timeStyle: 'long' }
export const local = (time, from = 0, to = 19) => new Date(time).toLocaleString('sv', zone).replace(/.{19}/, text => text.slice(from, to))

// all returns the elements of a part that match, the root of the part included.
export function all(root, selector) {
	return [...(root.matches?.(selector) ? [root] : []), ...root.querySelectorAll(selector)]
}

const onDemand = [
	['[data-points]', () => import('./chart.js')],
	['[data-listen]', () => import('./listen.js')],
	['[data-follow]', () => import('./preview.js')],
	['[data-first]', () => import('./timeline.js')],
	['.stateline', () => import('./live.js')],
	['.side ~ main form[method="post"]', () => import('./forms.js')],
]

// prepare makes a part of the page work that has just been loaded.
export function prepare(root) {
	for (const e of all(root, 'button')) e.hidden = false
	showTimes(root)
	enable()
	for (const [selector, module] of onDemand) {
		// Without the service it is loaded at its first use.
		if (all(root, selector).length) module().then(m => m.prepare?.(root), () => {})
	}
}

// enable enables the buttons for selected rows once a row is selected.
function enable() {
	for (const e of all(main, '[data-chosen]')) e.disabled = !main.querySelector('td>:checked')
}

on('change', enable)

// Relative times follow the clock of the service.

export const language = document.documentElement.lang
const relative = new Intl.RelativeTimeFormat(language)
const now = new Intl.RelativeTimeFormat(language, { numeric: 'auto' }).format(0, 'second')
const units = [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]]
export const skew = Date.now() - document.body.dataset.now

// showTimes updates the times of a part.
export function showTimes(root) {
	for (const e of all(root, 'time[title]')) {
		const at = Date.parse(e.dateTime)
		if (Number.isNaN(at)) continue
		e.title = local(at)
		const seconds = (at - Date.now() + skew) / 1000
		const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units[3]
		e.textContent = Math.abs(seconds) < 5 ? now : relative.format(Math.trunc(seconds / size), unit)
	}
}

async function copy(button) {
	const source = button.dataset.copy ? byId(button.dataset.copy) : button.closest('.message')
	const shown = source.cloneNode(true)
	shown.querySelector('button')?.remove()
	const text = source.matches('.message') ? shown.textContent.replace(/\s+/g, ' ').trim() : shown.textContent
	try {
		await navigator.clipboard.writeText(text)
	// Not over plain HTTP.
	} catch {
		getSelection().selectAllChildren(source)
		if (!document.execCommand('copy')) return
	}
	const label = button.lastChild
	const before = label.data
	say(label.data = texts.copied)
	if (before !== texts.copied) setTimeout(() => { label.data = before }, 2000)
}

const openPalette = () => import('./palette.js').then(m => m.open())

on('click', event => {
	const clicked = selector => event.target.closest(selector)
	const copied = clicked('[data-copy]')
	if (copied) copy(copied)
	if (clicked('[data-palette]')) openPalette()
	if (clicked('[data-keys]')) import('./keys.js').then(m => m.help())
	const link = clicked('a[data-dialog]')
	if (link && isPlain(event)) {
		event.preventDefault()
		import('./forms.js').then(m => m.open(link).catch(() => fail(texts.offline)), () => location.assign(link.href))
	}
	if (clicked('[data-close], dialog [data-cancel]') && isPlain(event)) {
		event.preventDefault()
		clicked('dialog').close()
	}
})

// isPlain reports whether a click opens a link in this tab.
const isPlain = event => !event.button && !event.defaultPrevented && !['ctrl', 'meta', 'shift', 'alt'].some(key => event[key + 'Key'])

on('submit', event => {
	const form = event.target
	if (form.matches('[data-filter]') && filter(form, 0)) event.preventDefault()
	if (form.getAttribute('method') !== 'post' || event.defaultPrevented) return
	if (form.dataset.sent) return event.preventDefault()
	// A second click does nothing.
	form.dataset.sent = 'true'
	if (form.closest('.side ~ main, #dialog')) {
		event.preventDefault()
		import('./forms.js').then(m => m.send(form, event.submitter)).catch(() => fail(texts.offline)).finally(() => { delete form.dataset.sent })
	} else setTimeout(() => { delete form.dataset.sent }, 3000)
})

on('keydown', event => {
	const { key } = event
	const control = event.ctrlKey || event.metaKey
	if (event.altKey || event.isComposing || event.defaultPrevented) return
	if (control && !event.shiftKey && key.toLowerCase() === 'k' && byId('palette')) {
		event.preventDefault()
		openPalette()
	}
	if (control || key.length > 1 || key === ' ' || document.documentElement.dataset.shortcuts === 'off') return
	if (event.target.closest?.('input, textarea, select') || document.querySelector('dialog[open], :popover-open')) return
	if (key === '/') event.preventDefault()
	import('./keys.js').then(m => m.press(key))
})

// Fragments of the page are swapped when a link to the same page or its filter is used.

// running aborts the request under way.
let running
// again repeats the swap that failed, until something newer is wanted.
let again

// What was done, and a selection, belong to one visit.
const here = new URL(location.href)
for (const name of ['done', 'of', 'select']) if (here.searchParams.has(name)) {
	here.searchParams.delete(name)
	history.replaceState(null, '', here)
}
const address = () => location.href.split('#')[0]
let shown = address()

// fragments returns the ids of the parts of this page that can be loaded alone.
function fragments() {
	return main.dataset.fragments.split(',').filter(id => byId(id))
}

// isInUse reports whether a part is read in a menu, confirmed in a dialog, typed in or selected.
function isInUse(ids) {
	return document.querySelector('dialog[open], :popover-open') || ids.some(id => byId(id)?.querySelector(':is(input:not([type="range"]), textarea, select):focus, :checked[form]'))
}

// swap loads the page's fragments at a link and replaces them. With mode push or
// replace the address becomes that of the page. A refresh yields to everything else. It
// returns true if the parts were replaced, and false if a refresh could not load them.
export async function swap(link, mode) {
	const ids = fragments()
	const url = new URL(link, location.href)
	const quiet = mode === 'refresh'
	if (quiet && again) return false
	if (quiet && (running || !ids.length || isInUse(ids))) return
	if (!ids.length) return leave(url)
	cancel()
	const mine = running = new AbortController()
	if (!quiet) busy(ids, true)
	const response = await load(url, ids.join(), { signal: mine.signal }).catch(() => null)
	if (running !== mine) return
	running = null
	busy(ids, false)
	if (quiet && isInUse(ids)) return
	if (quiet && !(response?.status < 500)) return false
	if (!response) {
		if (!isRetrying()) fail(texts.retrying)
		again = () => swap(link, mode)
		waiting = setTimeout(retry, 3000)
		return
	}
	if (!response.shows) return leave(response.next ?? url)
	if (mode === 'push') history.pushState(null, '', url)
	if (mode === 'replace') history.replaceState(null, '', url)
	shown = address()
	if (!quiet) for (const e of all(document, '#messages .good, main > .failed')) e.remove()
	for (const part of [...parse(response.text).children]) replace(part, mode)
	if (mode === 'push') fillFilters()
	if (!quiet) say(['.paging > span', '.empty p', 'h1'].map(s => main.querySelector(s)).find(Boolean).textContent)
	return true
}

// retry repeats the swap that failed, unless the page is hidden.
function retry() {
	if (!document.hidden) again?.()
}

on('visibilitychange', retry)

// isRetrying reports whether the page says that it tries again.
const isRetrying = () => main.querySelector(':scope > .failed')?.textContent === texts.retrying

// cancel ends the request under way and one that waits: something newer is wanted.
function cancel() {
	clearTimeout(waiting)
	running?.abort()
	running = again = null
	busy(fragments(), false)
}

function leave(url) {
	if (url.href === location.href) location.reload()
	else location.assign(url)
}

function busy(ids, is) {
	for (const id of ids) byId(id)?.setAttribute('aria-busy', is)
}

// replace puts a part in the place of its namesake. Focus and selected text stay; with a
// refresh also open details, and a failure that was shown before is not announced again.
export function replace(part, mode) {
	const old = byId(part.id)
	if (!old) return
	const focused = document.activeElement
	const hadFocus = old.contains(focused)
	const scrolled = [...old.querySelectorAll('.scroll')].map(e => [e.scrollLeft, mode === 'refresh' ? e.scrollTop : 0])
	if (mode === 'refresh') keepState(old, part)
	old.replaceWith(part)
	prepare(part)
	part.querySelectorAll('.scroll').forEach((e, i) => { if (scrolled[i]) [e.scrollLeft, e.scrollTop] = scrolled[i] })
	if (hadFocus) refocus(part, focused)
	if (mode === 'push' && part.getBoundingClientRect().top < 0) part.scrollIntoView()
}

function keepState(old, part) {
	for (const e of old.querySelectorAll('details[id][open]')) part.querySelector('#' + CSS.escape(e.id))?.setAttribute('open', '')
	const failures = '.card-failure, .message'
	const told = [...old.querySelectorAll(failures)].map(e => e.textContent)
	for (const e of part.querySelectorAll(failures)) if (told.includes(e.textContent)) e.removeAttribute('role')
}

function refocus(part, focused) {
	const name = ['id', 'rel', 'href'].find(name => focused.getAttribute(name))
	const target = name && part.querySelector(`[${name}="${CSS.escape(focused.getAttribute(name))}"]`)
	// As its script will do.
	if (target) target.hidden = false
	else part.tabIndex = -1
	;(target ?? part).focus({ preventScroll: true })
}

on('click', event => {
	const link = event.target.closest('a[data-swap]')
	if (!link || !isPlain(event) || link.pathname !== location.pathname) return
	event.preventDefault()
	swap(link.href, 'push')
})

// A filter waits until typing pauses; other fields apply at once.

let waiting

function filter(form, wait) {
	const url = new URL(location.pathname, location.href)
	for (const [name, value] of new FormData(form)) if (value !== '') url.searchParams.append(name, value)
	if (!fragments().length) return false
	// Also if this returns to what is shown.
	cancel()
	waiting = setTimeout(() => { if (url.href !== location.href || isRetrying()) swap(url, 'replace') }, wait)
	return true
}

// fillFilters makes the fields of the filters those of the address.
function fillFilters() {
	const values = new URLSearchParams(location.search)
	for (const e of all(document, 'form[data-filter] :is(input, select)')) {
		if (e.type === 'checkbox') e.checked = values.getAll(e.name).includes(e.value)
		else if (e.name) e.value = values.get(e.name) ?? e.querySelector('option')?.value ?? ''
	}
}

on('input', event => {
	const form = event.target.closest('form[data-filter]')
	if (form) filter(form, event.target.matches('select, [type="checkbox"]') ? 0 : 200)
})

window.addEventListener('popstate', () => {
	// If only the anchor changed, everything is shown.
	if (shown === address()) return
	fillFilters()
	swap(location.href, '')
})

prepare(document)
main.querySelector('[aria-invalid="true"]')?.focus()
const done = document.querySelector('#messages .good')
if (done) say(done.textContent)
setInterval(() => { if (!document.hidden) showTimes(document) }, 10_000)
