// Shortcuts of a single key.

import { byId, main } from './main.js'

// gone is when g was pressed.
let gone = 0

// press does what a key stands for.
export function press(key) {
	if (Date.now() - gone < 1500) {
		gone = 0
		document.querySelector(`.side a[data-key="${CSS.escape(key)}"]`)?.click()
		return
	}
	switch (key) {
	case 'g': gone = Date.now(); break
	case '?': help(); break
	case '/': main.querySelector('form[data-filter] input:not([type="hidden"])')?.focus(); break
	case 'j': move(1); break
	case 'k': move(-1); break
	case 'n': main.querySelector('a.primary[href$="/new"]')?.click(); break
	}
}

export function help() {
	const dialog = byId('keys')
	if (!dialog.open) dialog.showModal()
}

// move focuses the link of the next or previous row.
function move(by) {
	const rows = [...main.querySelectorAll('tbody > tr')]
	if (!rows.length) return
	const at = rows.indexOf(document.activeElement.closest('tbody > tr'))
	const row = rows.at(at < 0 && by < 0 ? -1 : Math.min(rows.length - 1, Math.max(0, at + by)))
	row.tabIndex = -1
	;(row.querySelector('a, button') ?? row).focus()
}
